# RUN: %python %s %t.pt
# RUN: %refused result-without-form pipe-opt %t.pt --passes inline
"""A device stands in a dict of the result."""
import sys
from typing import Dict, Tuple

import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Dict[str, Tuple[torch.Tensor, torch.device]]:
        return {"out": (x, x.device)}


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

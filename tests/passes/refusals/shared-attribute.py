# RUN: %python %s %t.pt
# RUN: %refused shared-attribute pipe-opt %t.pt --passes inline,lower-attributes
"""A buffer that the method writes is also in a list."""
import sys
from typing import List

import torch
from torch import Tensor


class Model(torch.nn.Module):
    kept: List[Tensor]

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(8))
        self.kept = [self.seen, torch.zeros(8)]

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.sum(0))
        return x + self.kept[0]


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

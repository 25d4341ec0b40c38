# RUN: %python %s %t.pt
# RUN: %refused object-attribute pipe-opt %t.pt --passes inline,lower-attributes
"""Objects of a TorchScript class are sorted by a method of theirs."""
import sys
from typing import List

import torch
from torch import Tensor


@torch.jit.script
class Scored:
    def __init__(self, score: float, value: Tensor):
        self.score, self.value = score, value

    def __lt__(self, other: "Scored") -> bool:
        return self.score < other.score


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scored = torch.jit.annotate(List[Scored], [])
        for i in range(3):
            scored.append(Scored(float(x[i].sum()), x[i]))
        scored.sort()
        return scored[0].value


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

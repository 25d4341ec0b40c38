# RUN: %python %s %t.pt
# RUN: %refused attribute-type pipe-opt %t.pt --passes inline,lower-attributes
"""A list of objects of a TorchScript class, which the method compares."""
import sys
from typing import List

import torch
from torch import Tensor


@torch.jit.script
class Point:
    def __init__(self, x: int):
        self.x = x


class Model(torch.nn.Module):
    points: List[Point]

    def __init__(self):
        super().__init__()
        self.points = [Point(1), Point(1)]

    def forward(self, x: Tensor) -> Tensor:
        same = self.points[0] is self.points[1]
        return x if same else -x


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: %refused attribute-type pipe-opt %t.pt --passes inline,lower-attributes
"""A list of objects of a TorchScript class, which the method changes."""
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
        self.points = [Point(1)]

    def forward(self, x: Tensor) -> Tensor:
        self.points[0].x = 2
        return x * self.points[0].x


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
"""A parameter is the transpose of another one's memory."""
import sys

import torch
from torch import Tensor, nn


class Part(nn.Module):
    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.randn(4, 4)
        self.a, self.b = Part(weight), Part(weight.t())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

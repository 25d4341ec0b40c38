# RUN: %python %s %t.pt InObject
# RUN: %refused parameter-in-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt Mixed
# RUN: %refused parameter-in-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
"""A parameter that an object holds, too, and one in a tuple with a tensor that is no attribute."""
import sys
from typing import Tuple

import torch
from torch import Tensor, nn


@torch.jit.script
class Holder:
    def __init__(self, bias: Tensor):
        self.bias = bias


class InObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.held = Holder(self.a.bias)

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x))) * self.held.bias).mean()


class Mixed(nn.Module):
    held: Tuple[Tensor, Tensor]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.held = (self.a.bias, torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        bias, scale = self.held
        return (self.b(torch.tanh(self.a(x))) * scale + bias).mean()


made = {"InObject": InObject, "Mixed": Mixed}[sys.argv[2]]()
torch.jit.save(torch.jit.script(made), sys.argv[1])

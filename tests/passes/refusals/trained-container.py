# RUN: %python %s %t.pt Model
# RUN: %refused trained-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InTuple
# RUN: %refused trained-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InObject
# RUN: %refused trained-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
"""Trained tensors that only a list, a tuple or an object holds."""
import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn


class Model(nn.Module):
    weights: List[Tensor]

    def __init__(self):
        super().__init__()
        self.weights = [torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)]
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = torch.tanh(self.a(x) @ weight)
        return self.b(x).mean()


class InTuple(nn.Module):
    held: Tuple[Tensor, int]

    def __init__(self):
        super().__init__()
        self.held = (torch.randn(4, requires_grad=True), 2)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x))) * self.held[0]).mean() / self.held[1]


@torch.jit.script
class Holder:
    def __init__(self, bias: Tensor):
        self.bias = bias


class InObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.held = Holder(torch.randn(4, requires_grad=True))

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x))) * self.held.bias).mean()


made = {"Model": Model, "InTuple": InTuple, "InObject": InObject}[sys.argv[2]]()
torch.jit.save(torch.jit.script(made), sys.argv[1])

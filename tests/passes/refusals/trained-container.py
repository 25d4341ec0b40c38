# RUN: %python %s %t.pt
# RUN: %refused trained-container pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
"""Trained tensors that only a list holds."""
import sys
from typing import List

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


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

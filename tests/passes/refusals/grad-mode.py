# RUN: %python %s %t.pt
# RUN: %refused grad-mode pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
"""Gradients are off in one branch only."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            torch.set_grad_enabled(False)
        y = torch.tanh(self.a(x))
        torch.set_grad_enabled(True)
        return self.b(y).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: %refused state-with-gradient pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
"""A moving average of activations that still have their graph."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        self.mean = y.mean(0)
        return self.b(y).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

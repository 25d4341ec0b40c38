# RUN: %python %s %t.pt
# RUN: %refused returned-argument pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
"""An operator without gradients that has nothing to change: PyTorch gives the tensor with its gradient."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        with torch.no_grad():
            k = h.contiguous()
        return self.b(h + k).pow(2).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: %refused hidden-tensors pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
"""An operator without gradients writes, and reads a list that a loop made."""
import sys
from typing import List

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        parts: List[Tensor] = []
        for i in range(2):
            parts.append(h + i)
        both = torch.zeros(2, 1, 1)
        with torch.no_grad():
            torch.stack(parts, out=both)
        return self.b(h + both[0]).pow(2).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt Transposed
# RUN: %refused state-of-weight pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: %python %s %t.pt Row
# RUN: %refused state-of-weight pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: %python %s %t.pt Detached
# RUN: pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: pipe-compile %t.pt --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
"""A view of a weight, made without gradients, that the next micro-batch reads; one of the detached weight trains."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(4, 4))


class Transposed(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x) + x @ self.kept)
        with torch.no_grad():
            self.kept = self.b.weight.t()
        return self.b(y).mean()


class Row(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x) + self.kept[0])
        with torch.no_grad():
            self.kept = self.b.weight[:4]
        return self.b(y).mean()


class Detached(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x) + x @ self.kept)
        self.kept = self.b.weight.detach().t()
        return self.b(y).mean()


torch.jit.script({"Transposed": Transposed, "Row": Row, "Detached": Detached}[sys.argv[2]]()).save(sys.argv[1])

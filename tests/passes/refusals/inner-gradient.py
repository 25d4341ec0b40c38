# RUN: %python %s %t.pt
# RUN: %refused inner-gradient pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
# RUN: not pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic 2>&1 | FileCheck %s
# CHECK: help: {{.*}}, or train the model unsplit: pipe-run MODEL.pt --train
# RUN: pipe-run %t.pt --train --inputs f32[4,4] --microbatches 2
"""A penalty on gradients."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_(True)
        y = self.b(torch.tanh(self.a(x)))
        g = torch.autograd.grad([y.sum()], [x], create_graph=True)[0]
        assert g is not None
        return y.mean() + ((g.norm(2, dim=1) - 1) ** 2).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

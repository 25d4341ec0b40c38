# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# CHECK: [[H:%[0-9]+]] : Tensor = aten::linear
# CHECK: [[D:%[0-9]+]] : Tensor = aten::detach([[H]])
# CHECK: aten::transpose([[D]]
# CHECK: [[V:%[0-9]+]] : Tensor = aten::transpose([[H]]
# CHECK: [[B:%[0-9]+]] : Tensor = aten::detach([[W:%[0-9]+]])
# CHECK: aten::t([[B]])
# CHECK: [[T:%[0-9]+]] : Tensor = aten::t([[W]])
# CHECK: [[P:%[0-9]+]] : Tensor = aten::matmul([[V]], [[T]])
# CHECK: [[M:%[0-9]+]] : Tensor = aten::detach([[P]])
# CHECK: aten::neg([[M]])
# CHECK: return
"""Without gradients, a product reads what PyTorch gives it, views included, and its result is detached."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            n = -torch.matmul(h.transpose(0, 1), self.c.weight.t())
        return self.b(h * n).sum()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# CHECK: [[W:%[0-9]+]] : Tensor = prim::GetAttr[name="w"]
# CHECK: [[D:%[0-9]+]] : Tensor = aten::detach([[W]])
# CHECK: aten::chunk([[D]]
# CHECK: [[L:%[0-9]+]] : Tensor[] = aten::chunk([[W]]
# CHECK: [[K:%[0-9]+]] : Tensor, {{%[0-9]+}} : Tensor = prim::ListUnpack([[L]])
# CHECK: aten::matmul({{%[0-9]+}}, [[K]])
# CHECK: [[N:%[0-9]+]] : Tensor = aten::reshape([[T:%[0-9]+]]
# CHECK: [[C:%[0-9]+]] : bool = aten::is_contiguous([[T]])
# CHECK: [[R:%[0-9]+]] : Tensor = prim::If([[C]])
# CHECK: aten::is_set_to
# CHECK: -> ([[N]])
# CHECK: aten::matmul({{%[0-9]+}}, [[R]])
# CHECK: return
"""Without gradients, a product reads parts of a list as PyTorch has them; of a reshape, a run shows whether it is a view."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.w = nn.Linear(4, 4), nn.Linear(4, 4), nn.Parameter(torch.randn(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            k, v = self.w.chunk(2)
            n = torch.matmul(h.transpose(0, 1), k)
            m = torch.matmul(n.transpose(0, 1), self.b.weight.t().reshape(4, 4))
        return self.b(h * m * v).sum()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

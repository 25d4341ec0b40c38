# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# RUN: pipe-opt %t.pt --passes inline | FileCheck %s --check-prefix=INFER
# CHECK-NOT: grad_mode
# CHECK: [[Y:%[0-9]+]] : Tensor = aten::mul
# CHECK: [[D:%[0-9]+]] : Tensor = aten::detach([[Y]])
# CHECK: aten::add_([[D]]
# CHECK: [[L:%[0-9]+]] : Tensor[] = prim::ListConstruct([[D]]
# CHECK: aten::stack([[L]]
# CHECK: [[K:%[0-9]+]] : Tensor = aten::contiguous([[D]]
# CHECK: [[S:%[0-9]+]] : bool = aten::__is__([[K]], [[D]])
# CHECK: [[C:%[0-9]+]] : Tensor = prim::If([[S]])
# CHECK: -> ([[Y]])
# CHECK: -> ([[K]])
# CHECK: aten::neg([[K]])
# CHECK: aten::sub([[Y]]
# CHECK: aten::mul({{%[0-9]+}}, [[C]])
# CHECK-NOT: set_grad_enabled
# CHECK: return
# INFER-NOT: aten::detach
# INFER-NOT: grad_enabled
# INFER: return
"""Without gradients, operators read detached tensors; what the part only hands on keeps its graph."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * 2
        with torch.no_grad():
            y.add_(1.0)
            z = y
            s = torch.stack([y, x])
            k = y.contiguous()
            n = -k
        w = (z - s[0]) * k + n
        torch.set_grad_enabled(False)
        if torch.is_grad_enabled():
            w = w * 3
        torch.set_grad_enabled(True)
        return self.b(w).sum()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# CHECK: [[Y:%[0-9]+]] : Tensor = aten::mul
# CHECK: [[L:%[0-9]+]] : Tensor[] = prim::ListConstruct([[Y]]
# CHECK: prim::If
# CHECK: aten::set_grad_enabled
# CHECK-NEXT: aten::_foreach_mul_([[L]]
# CHECK-NEXT: aten::set_grad_enabled
# CHECK: prim::If
# CHECK: aten::set_grad_enabled
# CHECK-NEXT: aten::_foreach_mul([[L]]
# CHECK-NEXT: aten::set_grad_enabled
# CHECK: [[P:%[0-9]+]] : Tensor[] = prim::ListConstruct(
# CHECK: aten::append([[P]]
# CHECK: aten::set_grad_enabled
# CHECK-NEXT: aten::_foreach_add_([[P]]
# CHECK: [[G:%[0-9]+]] : Tensor[] = aten::split(
# CHECK: aten::append([[G]], [[Y]])
# CHECK: [[T:%[0-9]+]] : Tensor = aten::cat([[G]]
# CHECK: aten::detach([[T]])
# CHECK: return
"""Without gradients, an operator that writes the tensors of a list gets this list, and gradients are switched off for it alone. So is one that makes a list of
such a list. The results of others are detached."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) * 2
        both = [y, x * 2]
        with torch.no_grad():
            torch._foreach_mul_(both, 3.0)
            doubled = torch._foreach_mul(both, 2.0)
            parts = [y[:, :2]]
            parts.append(y[:, 2:])
            torch._foreach_add_(parts, 1.0)
            first = parts[0].sum()
            grown = y.split(2, 1)
            grown.append(y)
            t = torch.cat(grown, 1)
        return self.b(both[0] * doubled[0] + t[:, 4:] + first).sum()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

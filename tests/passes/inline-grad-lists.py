# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# CHECK: [[Y:%[0-9]+]] : Tensor = aten::mul
# CHECK: [[D:%[0-9]+]] : Tensor = aten::detach([[Y]])
# CHECK: [[L:%[0-9]+]] : Tensor[] = prim::ListConstruct([[D]]
# CHECK: aten::_foreach_mul_([[L]]
# CHECK: [[M:%[0-9]+]] : Tensor[] = prim::ListConstruct([[D]]
# CHECK: aten::_foreach_mul([[M]]
# CHECK: [[P:%[0-9]+]] : Tensor[] = prim::ListConstruct(
# CHECK: aten::append([[P]]
# CHECK: aten::_foreach_add_([[P]]
# CHECK: [[G:%[0-9]+]] : Tensor[] = aten::split([[D]]
# CHECK: aten::append([[G]], [[Y]])
# CHECK: [[T:%[0-9]+]] : Tensor = aten::cat([[G]]
# CHECK: aten::detach([[T]])
# CHECK: return
"""Without gradients, operators read, and write, lists of detached tensors; a list that also got a tensor with a graph is read as it is."""
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
            grown = y.split(2, 1)
            grown.append(y)
            t = torch.cat(grown, 1)
        return self.b(both[0] * doubled[0] + t[:, 4:]).sum()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

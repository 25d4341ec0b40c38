# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes | FileCheck %s
# CHECK-NOT: prim::CreateObject
# CHECK-NOT: prim::Enter
# CHECK: aten::mul
# CHECK-NOT: prim::Exit
"""Blocks that change nothing in an inference go, also inside a branch."""
import sys

import torch
from torch import Tensor


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = x * 2
        if bool(x.sum() > 0):
            with torch.autograd.profiler.record_function("branch"):
                with torch.no_grad():
                    x = x + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = x - 3
        return x


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

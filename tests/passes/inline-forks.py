# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline | FileCheck %s
# CHECK-NOT: prim::fork
# CHECK-NOT: aten::wait
# CHECK: aten::tanh
# CHECK: return
"""A fork inside of another module than the model itself."""
import sys

import torch
from torch import Tensor, nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        future = torch.jit.fork(self.side, x)
        return x.tanh() + torch.jit.wait(future)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

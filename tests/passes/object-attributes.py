# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes | FileCheck %s
"""An attribute that is an object of a TorchScript class becomes its attributes: constants, inputs, and state where the method assigns them."""
import sys
from typing import List

import torch
from torch import Tensor, nn


# CHECK: attribute box.weight buffer float32[8]
# CHECK: attribute box.inner.calls value int written value=3
# CHECK-NOT: attribute
# CHECK: graph(
# CHECK-NOT: prim::GetAttr
# CHECK-NOT: prim::SetAttr
# CHECK: prim::Constant[value=0.5]
# CHECK: return
@torch.jit.script
class Inner:
    def __init__(self):
        self.calls = 3


@torch.jit.script
class Box:
    def __init__(self, weight: Tensor):
        self.weight = weight
        self.scale = 0.5
        self.inner = Inner()

    def times(self, x: Tensor) -> Tensor:
        self.inner.calls = self.inner.calls + 1
        return x * self.weight * self.scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.box = Box(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.box.times(x) + self.box.inner.calls


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

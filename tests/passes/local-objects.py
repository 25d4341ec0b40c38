# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes | FileCheck %s
# RUN: pipe-opt %t.pt --passes inline,lower-attributes,simplify | FileCheck %s --check-prefix=SIMPLE
"""An object that the method makes becomes the values of its attributes, through branches, loops and other objects; the type is the declared one."""
import sys
from typing import Optional

import torch
from torch import Tensor


# CHECK-NOT: prim::CreateObject
# CHECK-NOT: prim::GetAttr
# CHECK-NOT: prim::SetAttr
# CHECK: return
#
# The largest is a Tensor? and not a None after the branch; nothing is left of what no operator reads.
# SIMPLE: aten::mean(%x
# SIMPLE-NOT: prim::Uninitialized
# SIMPLE: [[MASK:%[0-9a-z_.]+]] : Tensor? = prim::If
# SIMPLE: {{%[0-9a-z_.]+}} : int{{.*}} = prim::Loop
# SIMPLE: return
@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.largest = torch.jit.annotate(Optional[Tensor], None)

    def add(self, by: int):
        self.count = self.count + by


@torch.jit.script
class Both:
    def __init__(self, counter: Counter, value: Tensor):
        self.counter = counter
        self.value = value


class Model(torch.nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        both = Both(Counter(1), x.mean(0))
        if bool(x.sum() > 0):
            both.counter.largest = x * 2
        for i in range(n):
            both.counter.add(i)
        largest = both.counter.largest
        if largest is not None:
            x = x + largest
        return x * both.counter.count + both.value


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes | FileCheck %s
"""To which of two objects of a TorchScript class something is assigned, the data decides: each is a tuple of lists of one element."""
import sys

import torch
from torch import Tensor


# CHECK-NOT: prim::CreateObject
# CHECK: [[FIRST:%[0-9a-z_.]+]] : int[] = prim::ListConstruct()
# CHECK: = prim::TupleConstruct([[FIRST]])
# CHECK: [[CHOSEN:%[0-9a-z_.]+]] : (int[]) = prim::If
# CHECK: [[CELL:%[0-9a-z_.]+]] : int[] = prim::TupleIndex([[CHOSEN]]
# CHECK-NEXT: aten::clear([[CELL]])
# CHECK-NEXT: aten::append([[CELL]], %{{.*}})
# CHECK-NOT: prim::SetAttr
# CHECK-NOT: prim::GetAttr
# CHECK: return
@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = Counter(1)
        second = Counter(2)
        counter = first if bool(x.sum() > 0) else second
        counter.count = 3
        return x * first.count * second.count


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

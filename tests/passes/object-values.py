# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes | FileCheck %s
"""Objects that are stored, chosen between and put into lists, and not assigned to from then on, are tuples of their attributes."""
import sys
from typing import List, Optional

import torch
from torch import Tensor


# CHECK: attribute holder.weight buffer float32[8] written
# CHECK: attribute last value None written
# CHECK: %last : (Tensor, (int, int))?):
# CHECK-NOT: prim::CreateObject
# CHECK-NOT: prim::GetAttr
# CHECK-NOT: prim::SetAttr
# CHECK: [[CHOSEN:%[0-9a-z_.]+]] : (Tensor, (int, int)) = prim::If
# CHECK: aten::append({{%[0-9a-z_.]+}}, [[CHOSEN]])
# CHECK: return
@torch.jit.script
class Size:
    def __init__(self, height: int, width: int):
        self.height, self.width = height, width


@torch.jit.script
class Picture:
    def __init__(self, pixels: Tensor, size: Size):
        self.pixels, self.size = pixels, size
        if size.width > 4:
            self.pixels = pixels * 2


@torch.jit.script
class Holder:
    def __init__(self, weight: Tensor):
        self.weight = weight
        self.inner = Size(1, 2)


class Model(torch.nn.Module):
    last: Optional[Picture]

    def __init__(self):
        super().__init__()
        self.holder = Holder(torch.ones(8))
        self.last = None

    def forward(self, x: Tensor) -> Tensor:
        first = Picture(x, self.holder.inner)
        if bool(x.sum() > 1):
            first.pixels = x + 1
            both = [first, first]
        else:
            both = [first]
        before = self.holder
        self.holder = Holder(x.sum(0))  # each of its attributes is assigned
        chosen = first if bool(x.sum() > 0) else Picture(-x, Size(3, 4))
        pictures = torch.jit.annotate(List[Picture], [])
        pictures.append(chosen)
        last = self.last
        if last is not None:
            pictures.append(last)
        self.last = chosen
        y = before.weight + both[-1].pixels
        for picture in pictures:
            y = y + picture.pixels * picture.size.width
        return y + self.holder.weight


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

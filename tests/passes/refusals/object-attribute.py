# RUN: %python %s %t.pt
# RUN: %refused object-attribute pipe-opt %t.pt --passes inline,lower-attributes
"""To which of two objects of a TorchScript class something is assigned, the data decides."""
import sys

import torch
from torch import Tensor


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

# RUN: %python %s %t.pt
# RUN: %refused object-attribute pipe-opt %t.pt --passes inline,lower-attributes
"""An object of a TorchScript class changes in a branch."""
import sys

import torch
from torch import Tensor


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counter = Counter(1)
        if bool(x.sum() > 0):
            counter.count = 2
        return x * counter.count


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

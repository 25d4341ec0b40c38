# RUN: %python %s %t.pt
# RUN: %refused object-attribute pipe-opt %t.pt --passes inline,lower-attributes
"""An attribute gets another object of a TorchScript class, which is changed after that."""
import sys

import torch
from torch import Tensor


@torch.jit.script
class Holder:
    def __init__(self, weight: Tensor):
        self.weight = weight


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.holder = Holder(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.holder.weight
        other = Holder(y.sum(0))
        self.holder = other
        other.weight = other.weight * 2
        return y + self.holder.weight


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

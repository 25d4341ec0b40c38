# RUN: %python %s %t.pt
# RUN: %refused meta-tensor pipe-opt %t.pt --passes inline,lower-attributes
"""A model that was saved before its weights were loaded."""
import sys

import torch
from torch import Tensor


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.empty(4, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: %refused reserved-name pipe-opt %t.pt --passes inline,lower-attributes
"""A submodule has the name of a method that every stage has."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pipec_forward = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.pipec_forward(x)


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

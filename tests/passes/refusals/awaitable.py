# RUN: %python %s %t.pt
# RUN: %refused awaitable pipe-opt %t.pt --passes inline
"""A value that is computed when it is waited for."""
import sys

import torch
from torch import Tensor


def twice(x: Tensor) -> Tensor:
    return x * 2


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        later = torch.jit._awaitable(twice, x)
        return torch.jit._awaitable_wait(later).relu()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

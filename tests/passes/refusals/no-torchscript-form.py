# RUN: %python %s %t.pt
# RUN: %refused no-torchscript-form pipe-compile %t.pt --at last -o %t.pipe
"""A list of futures: LibTorch runs it, but does not read what it writes for it."""
import sys
from typing import List

import torch
from torch import Tensor, nn


def twice(x: Tensor) -> Tensor:
    return x * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for _ in range(int(x.size(0))):
            futures.append(torch.jit.fork(twice, x))
        for future in futures:
            x = x + torch.jit.wait(future)
        return self.last(x)


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

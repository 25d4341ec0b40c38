# RUN: %python %s %t.pt
# RUN: %refused class-unknown pipe-opt %t.pt --passes inline
"""Which of two modules is called is known at run time only."""
import sys
from typing import List

import torch
from torch import Tensor, nn


@torch.jit.interface
class Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Up(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Down(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2


class Model(nn.Module):
    up: Block
    down: Block

    def __init__(self):
        super().__init__()
        self.up, self.down = Up(), Down()

    def forward(self, x: Tensor) -> Tensor:
        both: List[Block] = [self.up, self.down]
        return both[int(x.sum() > 0)].forward(x)


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

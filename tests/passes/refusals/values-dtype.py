# RUN: %python %s %t.pt %t.in.pt
# RUN: %refused values-dtype pipe-run %t.pt --inputs %t.in.pt
"""An argument is a tensor of 32-bit unsigned integers, which torch.load reads and LibTorch does not."""
import sys

import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return x + counts.to(torch.float32)


torch.jit.save(torch.jit.script(Model()), sys.argv[1])
torch.save((torch.ones(2), torch.ones(2, dtype=torch.uint32)), sys.argv[2])

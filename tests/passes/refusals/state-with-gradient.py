# RUN: %python %s %t.pt Model
# RUN: %refused state-with-gradient pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt Codebook
# RUN: %refused state-with-gradient pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
# RUN: %refused state-with-gradient pipe-run %t.pt --train --inputs f32[4,4] --microbatches 2
# RUN: %python %s %t.pt OfOneSize
# RUN: %refused state-with-gradient pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
# RUN: %refused state-with-gradient pipe-run %t.pt --train --inputs f32[4,4] --steps 2
"""A moving average of activations that still have their graph, and one that the loss depends on, which PyTorch refuses in the second micro-batch: also in a model of
one batch size, which no test run gives a second one."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        self.mean = y.mean(0)
        return self.b(y).mean()


class Codebook(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        self.mean.lerp_(y.mean(0), 0.01)
        return self.b(y - self.mean).pow(2).mean()


class OfOneSize(Model):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x)).view(4, 4)
        self.mean.lerp_(y.mean(0), 0.01)
        return self.b(y - self.mean).pow(2).mean()


model = torch.jit.script({"Model": Model, "Codebook": Codebook, "OfOneSize": OfOneSize}[sys.argv[2]]())
if sys.argv[2] != "Model":
    model(torch.randn(4, 4))  # its state is saved as a buffer that requires a gradient
torch.jit.save(model, sys.argv[1])

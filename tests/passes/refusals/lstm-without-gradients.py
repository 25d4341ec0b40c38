# RUN: %python %s %t.pt
# RUN: %refused lstm-without-gradients pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic
"""A frozen LSTM: the last bits depend on the mode."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.w, self.u = nn.Parameter(torch.randn(16, 4)), nn.Parameter(torch.randn(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        zeros = torch.zeros(1, x.size(0), 4)
        with torch.no_grad():
            taught = torch.lstm(h.unsqueeze(1), [zeros, zeros], [self.w, self.u], False, 1, 0.0, True, False, True)[0]
        return self.b(h - taught.squeeze(1)).pow(2).mean()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

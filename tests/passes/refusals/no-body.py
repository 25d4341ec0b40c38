# RUN: %python %s %t.pt
# RUN: %refused no-body pipe-opt %t.pt --passes inline
"""A method of a C++ class is called."""
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, x: torch.Tensor):
        weight, bias = self.packed.unpack()
        return x @ weight.dequantize()


torch.jit.save(torch.jit.script(Model()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: rm -rf %t.texts && pipe-compile %t.pt --train --at b --inputs f32[4,4] --cost analytic -o %t.pipe --force --dump-ir %t.texts
# RUN: cat %t.texts/*-inline.ir | FileCheck %s
# RUN: pipe-opt %t.pt --passes inline | FileCheck %s --check-prefix=INFER
# CHECK-NOT: set_grad_enabled
# CHECK: [[ON:%[0-9]+]] : bool = aten::is_grad_enabled()
# CHECK: prim::If([[ON]])
# CHECK: aten::set_grad_enabled
# CHECK-NEXT: aten::lstm
# CHECK-NEXT: aten::set_grad_enabled
# CHECK: aten::lstm
# CHECK-NOT: aten::lstm
# CHECK-NOT: set_grad_enabled
# CHECK: return
# INFER-NOT: grad_enabled
# INFER: aten::lstm
# INFER-NOT: aten::lstm
# INFER: return
"""An LSTM chooses by the grad mode, so it alone runs with gradients off."""
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

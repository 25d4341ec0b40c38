# RUN: %python %s %t.pt IsLeaf
# RUN: %refused graph-state pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: %python %s %t.pt RetainGrad
# RUN: %refused graph-state pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: pipe-run %t.pt --train --inputs f32[4,4] --microbatches 2
# RUN: %python %s %t.pt Toggles
# RUN: %refused graph-state pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
# RUN: not pipe-compile %t.pt --train --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force 2>&1 | FileCheck %s
# CHECK: help: {{.*}}, and freeze weights before it is saved or with pipe-run --freeze NAME; or train the model unsplit: pipe-run MODEL.pt --train
# RUN: pipe-run %t.pt --train --inputs f32[4,4] --microbatches 2
# RUN: pipe-compile %t.pt --infer --at b --inputs f32[4,4] -o %t.pipe --cost analytic --force
"""What autograd keeps at tensors of the whole model is another thing in a stage."""
import sys

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)


class IsLeaf(Model):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if self.a.weight.is_leaf:
            h = h * 2
        return self.b(h).mean()


class RetainGrad(Model):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h.retain_grad()
        return self.b(h).mean()


class Toggles(Model):
    """As a generator does with its discriminator."""

    def forward(self, x: Tensor) -> Tensor:
        self.b.weight.requires_grad_(False)
        made = self.b(self.a(x)).mean()
        self.b.weight.requires_grad_(True)
        return self.b(self.a(x).detach()).mean() - made


torch.jit.save(torch.jit.script(globals()[sys.argv[2] if len(sys.argv) > 2 else "IsLeaf"]()), sys.argv[1])

# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline,lower-attributes,simplify | FileCheck %s
"""Sixty tests one after the other, each of which hands the argument on: whether a round of the loop changes it is asked once of each (two to the power of sixty
ways lead through)."""
import sys

import torch

# CHECK: prim::Loop
# CHECK: return
steps = "".join(f"        if y is not None:\n            x = x + y * {k}\n" for k in range(60))
model = torch.jit.ScriptModule()
model.define(f"""
def forward(self, x: Tensor, y: Optional[Tensor] = None):
    for i in range(x.size(1)):
{steps}
        x = torch.tanh(x)
    return x
""")
torch.jit.save(model, sys.argv[1])

# RUN: %python %s %t.pt
# RUN: pipe-opt %t.pt --passes inline --print-scopes | FileCheck %s
# CHECK: aten::linear({{.*}}) # in m
# CHECK: aten::linear({{.*}}) # in m#2
# CHECK: aten::linear({{.*}}) # in m#3
"""A trace writes the second call of a module as forward1: a call like the first."""
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.m = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.m(self.m(self.m(x)).relu())


torch.jit.save(torch.jit.trace(Model(), torch.ones(2, 4)), sys.argv[1])

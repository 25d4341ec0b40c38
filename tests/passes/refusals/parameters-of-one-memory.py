# RUN: %python %s %t.pt Model
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InList
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InTuple
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InObject
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt InDict
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
# RUN: %python %s %t.pt Twin
# RUN: %refused parameters-of-one-memory pipe-compile %t.pt --train --at b --inputs f32[2,4] -o %t.pipe --cost analytic
"""A parameter is the transpose of another one's memory, or a list, tuple, dict or object holds a part of a parameter, or a list another
trained tensor of the same elements."""
import sys
from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn


class Part(nn.Module):
    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.randn(4, 4)
        self.a, self.b = Part(weight), Part(weight.t())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)).mean()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Part(torch.randn(4, 4)), Part(torch.randn(4, 4))

    def row(self) -> Tensor:
        return self.a.weight.detach()[0]


class InList(Parts):
    held: List[Tensor]

    def __init__(self):
        super().__init__()
        self.held = [self.row()]

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(self.a(x)) * self.held[0]).mean()


class InTuple(Parts):
    held: Tuple[int, Tensor]

    def __init__(self):
        super().__init__()
        self.held = (1, self.row())

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(self.a(x)) * self.held[1]).mean()


class InDict(Parts):
    held: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.held = {"row": self.row()}

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(self.a(x)) * self.held["row"]).mean()


@torch.jit.script
class Holder:
    def __init__(self, row: Tensor):
        self.row = row


class InObject(Parts):
    def __init__(self):
        super().__init__()
        self.held = Holder(self.row())

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(self.a(x)) * self.held.row).mean()


class Twin(Parts):
    held: List[Tensor]

    def __init__(self):
        super().__init__()
        self.held = [nn.Parameter(self.a.weight.data)]

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x) @ self.held[0]).mean()


made = {"Model": Model, "InList": InList, "InTuple": InTuple, "InDict": InDict, "InObject": InObject, "Twin": Twin}[sys.argv[2]]()
torch.jit.save(torch.jit.script(made), sys.argv[1])

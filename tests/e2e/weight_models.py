"""Small models whose weights are not plain tensors of their own; each is cut where `b` begins, and where stages use the same memory."""
import torch
from torch import Tensor, nn


class Detached(nn.Module):
    """A parameter and its detach(): the same elements, one of them without gradient."""

    def __init__(self):
        super().__init__()
        self.p, self.b = nn.Parameter(torch.randn(8, 8)), nn.Linear(8, 8)
        self.register_buffer("q", self.p.detach())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(x @ self.p) @ self.q)


class FrozenHead(nn.Module):
    """The head is the embedding's weight, frozen."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.b.weight = nn.Parameter(self.a.weight.detach(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


class ThreeNames(nn.Module):
    """One weight under three names, two of them in the second stage."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.b.weight = self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


class Parts(nn.Module):
    """Two parts of a weight in one stage, the whole in another: in the first stage nothing is shared."""

    def __init__(self):
        super().__init__()
        whole = torch.randn(16, 8)
        self.register_buffer("top", whole[:8])
        self.register_buffer("bottom", whole[8:])
        self.b = nn.Linear(8, 8)
        self.register_buffer("whole", whole)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(x @ self.top) @ self.bottom) @ self.whole.t()


class Conjugate(nn.Module):
    """Complex weights that are conjugate or negative views, alone and beside what they are views of."""

    def __init__(self):
        super().__init__()
        weight = torch.randn(8, 8, dtype=torch.cfloat)
        self.register_buffer("weight", weight)
        self.register_buffer("conjugate", weight.conj())
        self.register_buffer("alone", torch.randn(8, 8, dtype=torch.cfloat).conj())
        self.register_buffer("negative", torch.randn(8, 8, dtype=torch.cfloat).conj().imag)
        self.b = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.b(((x.to(torch.cfloat) @ self.weight) @ self.alone).real @ self.negative)
        return (x.to(torch.cfloat) @ self.conjugate).real


class Adjacency(nn.Module):
    """A sparse buffer, as graph networks have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("adjacency", torch.eye(8).to_sparse())
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sparse.mm(self.adjacency, self.a(x).t()).t()
        return self.b(x) + torch.sparse.mm(self.adjacency, x.t()).t()


ALL = [Detached, FrozenHead, ThreeNames, Parts, Conjugate, Adjacency]

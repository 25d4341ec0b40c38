"""Programs of our own: each does one thing that real models do and that a splitter must keep or refuse."""
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

class InPlaceNet(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(d, d) for _ in range(8)])

    def forward(self, x):
        acc = torch.zeros_like(x)
        y = x.clone()
        keep = y.view(y.size(0), -1)          # alias of y, read at the end
        for l in self.ls:
            y += l(y).relu_()                 # mutates y (and keep)
            y.mul_(0.5)
            acc[:, ::2] = y[:, ::2]           # copy_ into a slice
            acc.add_(y, alpha=0.1)
        y[:, 0].fill_(1.0)
        return acc, keep.sum(1), y.t_()


class InPlaceInput(nn.Module):
    """mutates its own input and returns it"""
    def __init__(self, d=64):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        x.add_(1.0)
        return self.b(h) + x


class LoopStack(nn.Module):
    """Weight-shared block run a run-time number of times inside one top-level prim::Loop."""
    def __init__(self, d=64):
        super().__init__()
        self.inp, self.cell, self.out = nn.Linear(d, d), nn.GRUCell(d, d), nn.Linear(d, d)

    def forward(self, x: Tensor, steps: int):
        h = torch.zeros_like(x)
        x = self.inp(x)
        i = 0
        while i < steps and bool((h.abs().mean() < 0.9)):
            h = self.cell(x, h)
            i += 1
        return self.out(h), i

class BNTrain(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c)
        self.c2, self.b2 = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c, momentum=None)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("ema", torch.zeros(c))
        self.calls: int = 0

    def forward(self, x):
        self.calls += 1
        self.seen += x.size(0)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        m = x.mean([0, 2, 3])
        self.ema.mul_(0.9).add_(m.detach(), alpha=0.1)
        return x - self.ema[None, :, None, None], self.seen.clone(), self.calls


class DropoutNet(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(d, d) for _ in range(6)])
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        for l in self.ls:
            x = x + self.drop(F.gelu(l(x)))
            x = x + 0.01 * torch.randn_like(x)
        return x * torch.bernoulli(torch.full_like(x, 0.9))



class Out(NamedTuple):
    logits: Tensor
    aux: Optional[Tensor]
    sizes: List[int]


class StructIO(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.scale = 0.5
        self.dims: List[int] = [1, 2]
        self.table: Dict[str, int] = {"x": 1, "y": 2}

    def forward(self, pair: Tuple[Tensor, Tensor], xs: List[Tensor], named: Dict[str, Tensor],
                mask: Optional[Tensor] = None, alpha: float = 1.0, flag: bool = False):
        h = self.a(pair[0]) + self.b(pair[1]) * alpha
        for x in xs:
            h = h + x
        outs: Dict[str, Tensor] = {}
        for k, v in named.items():
            outs[k] = self.c(v) + h
        if mask is not None:
            h = h.masked_fill(mask, 0.0)
        if "x" in self.table:
            h = h * float(self.table["x"])
        for d in self.dims:
            h = h + d
        aux: Optional[Tensor] = None
        if flag:
            aux = h * self.scale
        return Out(h, aux, [h.size(0), h.size(1)]), outs, [h, -h]


class EarlyExit(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tuple[Tensor, str]:
        if x.size(1) != 64:
            raise RuntimeError("bad width")
        h = self.a(x)
        if bool(h.mean() > 10.0):
            return h, "early"
        h = self.b(F.relu(h))
        if bool(h.std() > 10.0):
            return h, "mid"
        return self.c(F.relu(h)), "late"


class SharedBlock(nn.Module):
    """the same block object under two names, and called from a list"""
    def __init__(self, d=128):
        super().__init__()
        blk = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d))
        self.first, self.again = blk, blk
        self.mid = nn.Linear(d, d)
        self.mid2 = nn.Linear(d, d)
        self.mid2.weight = self.mid.weight
        self.halfw = nn.Parameter(self.mid.weight.detach()[: d // 2])   # view of another parameter's storage

    def forward(self, x):
        x = self.first(x) + x
        x = self.mid(x)
        x = self.again(x) + x
        x = self.mid2(x)
        x = self.first(x) + x
        return F.linear(x, self.halfw)


class Tower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


class ForkWait(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.l, self.r, self.out = Tower(d), Tower(d), nn.Linear(2 * d, d)
        self.towers = nn.ModuleList([Tower(d) for _ in range(3)])

    def forward(self, x):
        f = torch.jit.fork(self.l, x)
        r = self.r(x)
        futs = torch.jit.annotate(List[torch.jit.Future[Tensor]], [])
        for t in self.towers:
            futs.append(torch.jit.fork(t, r))
        y = self.out(torch.cat([torch.jit.wait(f), r], 1))
        for g in futs:
            y = y + torch.jit.wait(g)
        return y


class MoE(nn.Module):
    def __init__(self, d=64, e=4, k=2):
        super().__init__()
        self.gate = nn.Linear(d, e)
        self.experts = nn.ModuleList([Tower(d) for _ in range(e)])
        self.k = k

    def forward(self, x):
        s = x.shape
        x = x.reshape(-1, s[-1])
        w, idx = torch.topk(torch.softmax(self.gate(x), -1), self.k, -1)
        out = torch.zeros_like(x)
        for i, ex in enumerate(self.experts):
            tok, slot = torch.where(idx == i)
            if tok.numel() > 0:
                out.index_add_(0, tok, ex(x[tok]) * w[tok, slot].unsqueeze(1))
        return out.reshape(s)


class MoENet(nn.Module):
    def __init__(self, d=64, n=4):
        super().__init__()
        self.inp = nn.Linear(d, d)
        self.moes = nn.ModuleList([MoE(d) for _ in range(n)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(n)])

    def forward(self, x):
        x = self.inp(x)
        for m, n in zip(self.moes, self.norms):
            x = x + m(n(x))
        return x



@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Imp(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.w(x))


class Interface(nn.Module):
    layer: Layer

    def __init__(self, d=64):
        super().__init__()
        self.pre, self.layer, self.post = nn.Linear(d, d), Imp(d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.post(self.layer.forward(self.pre(x)))


class SkipFar(nn.Module):
    """long skip connections over many layers, one skip skips over several stages, an int and a None travel too"""
    def __init__(self, d=128, n=12):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])
        self.out = nn.Linear(d, d)

    def forward(self, x, bias: Optional[Tensor] = None):
        n = x.size(0)
        first = x
        h = x
        third = x
        for i, l in enumerate(self.ls):
            h = F.gelu(l(h))
            if i == 3:
                third = h
        h = h + third
        if bias is not None:
            h = h + bias
        return (self.out(h) + first).view(n, -1)


class BakedBatch(nn.Module):
    """traced with batch 2: int() and python numbers bake the batch size (wrong or failing for another micro-batch size)"""
    def __init__(self, d=64):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        n = int(x.size(0))
        pos = torch.arange(n, dtype=x.dtype).view(n, 1)
        return self.b(F.relu(self.a(x)).view(n, 4, -1).flatten(1) + pos)

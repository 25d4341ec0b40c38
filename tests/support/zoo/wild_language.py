"""What the language of TorchScript offers and scripts of real projects use: early returns, optional trees, objects, packed sequences, views."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn


def linears(n, w=6):
    return nn.ModuleList([nn.Linear(w, w) for _ in range(n)])


class LeavesEarly(nn.Module):
    """Early exits from a loop over layers, and from a loop inside it."""

    def __init__(self):
        super().__init__()
        self.layers, self.heads = linears(6), linears(6)

    def forward(self, x: Tensor, threshold: float = 0.5) -> Tuple[Tensor, int]:
        for i, (layer, head) in enumerate(zip(self.layers, self.heads)):
            x = layer(x).tanh()
            p = head(x).softmax(-1)
            if bool(p.max() > threshold):
                return p, i
            if i == 3:
                for j in range(2):
                    if bool(x.sum() > 100):
                        return x, -j
        return x, 99


class Halving(nn.Module):
    """A while loop between layers fills a list and a dict, and decides how often a later loop runs."""

    def __init__(self):
        super().__init__()
        self.layers = linears(4)

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor], Dict[str, Tensor]]:
        x = self.layers[0](x)
        history: List[Tensor] = []
        last: Dict[str, Tensor] = {}
        n = 0
        while float(x.norm()) > 0.5 and n < 10:
            x = x * 0.7
            history.append(x[:, :1])
            n += 1
            last["step%d" % (n % 2)] = x
        x = self.layers[1](x)
        y, z = (x, history[0]) if n > 1 else (x * 2, x[:, :1])
        for i in range(int(y.size(1)) // 2):
            z = z + self.layers[2](y)[:, i : i + 1]
        return self.layers[3](y + z), history, last


class OptionalTrees(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = linears(3)

    def forward(
        self,
        x: Tensor,
        pair: Optional[Tuple[Tensor, Optional[List[Tensor]]]] = None,
        factor: Optional[int] = None,
        named: Optional[Dict[str, Optional[Tensor]]] = None,
    ) -> Tuple[Tensor, Optional[Tuple[Tensor, Optional[List[Tensor]]]]]:
        x = self.layers[0](x)
        if pair is not None:
            x = x + pair[0]
            rest = pair[1]
            if rest is not None:
                x = x + rest[0]
        x = self.layers[1](x)
        if factor is not None:
            x = x * factor
        if named is not None:
            value = named["a"]
            if value is not None:
                x = x + value
        return self.layers[2](x), (x, [x * 2]) if pair is not None else None


class Facts(nn.Module):
    """Asks tensors what they are."""

    def __init__(self):
        super().__init__()
        self.layers = linears(4)

    def forward(self, x: Tensor) -> Tuple[Tensor, bool, int, str]:
        a = self.layers[0](x)
        grad = a.requires_grad
        b = self.layers[1](a)
        size = b.element_size() * b.numel() + b.dim() + len(b)
        if a.is_cuda or a.is_quantized or a.is_sparse or a.layout != torch.strided or a.is_complex() or not a.is_floating_point():
            b = b * 2
        if a.device.type == "cpu" and a.dtype == torch.float32 and not a.is_leaf:
            b = b + 1
        c = self.layers[2](b)
        return self.layers[3](c.to(x.device, x.dtype)), grad, size, str(x.device)


class Tasks(nn.Module):
    """A string argument chooses the head."""

    def __init__(self):
        super().__init__()
        self.layers = linears(3)
        self.heads = nn.ModuleDict({name: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)) for name in ("cls", "reg", "seg")})

    def forward(self, x: Tensor, task: str) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        out = x
        for name, head in self.heads.items():
            if name == task:
                out = head(x)
        return out


class Ensemble(nn.Module):
    """Members run as forks and are waited for in a list."""

    def __init__(self):
        super().__init__()
        self.members = nn.ModuleList([nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(4)])
        self.weights = nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        forks = [torch.jit.fork(member, x) for member in self.members]
        results = [torch.jit.wait(future) for future in forks]
        return torch.stack([y * w for y, w in zip(results, self.weights.unbind(0))]).sum(0), results


class Packed(nn.Module):
    """Sequences of other lengths, packed and unpacked around a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.rnn = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.out, self.last = nn.Linear(12, 5), nn.Linear(6, 2)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        y, (h, c) = self.rnn(packed)
        y, n = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=ids.size(1))
        return self.out(y), self.last(h.transpose(0, 1)[:, -1])


@torch.jit.script
class History:
    def __init__(self, first: Tensor):
        self.first = first
        self.steps: List[Tensor] = []

    def push(self, step: Tensor):
        self.steps.append(step)

    def total(self) -> Tensor:
        return torch.stack(self.steps).sum(0) + self.first


class UsesAnObject(nn.Module):
    """An object of a class of its own collects what the layers give, in branches too."""

    def __init__(self):
        super().__init__()
        self.layers = linears(4)

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        history = History(x)
        for layer in self.layers:
            x = layer(x).tanh()
            if bool(x.sum() > 0):
                history.push(x)
            else:
                history.push(-x)
        return history.total(), len(history.steps)


class WritesViews(nn.Module):
    """Slices, masks, chunks, transposes and out= arguments are written between the layers."""

    def __init__(self):
        super().__init__()
        self.layers = linears(4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x).clone()
        x[:, 0] += x[:, 1]
        x[:, 2:4] *= 2
        y = self.layers[1](x)
        y[y < 0] = 0.1
        y[..., -1] = x[:, 0]
        a, b = y.chunk(2, 1)
        a.add_(1)
        b.mul_(a)
        z = self.layers[2](y)
        z.t_()
        z.t_()
        z.view(-1)[::3] = 0.0
        z[:, [0, 2]] = z[:, [2, 0]]
        z[0, None].sub_(1)
        torch.add(z, y, out=y)
        w = self.layers[3](y)
        w.index_put_((torch.tensor([0]), torch.tensor([1])), torch.tensor(5.0), accumulate=True)
        w.masked_fill_(w > 3, 3.0).clamp_(min=-1)
        w.transpose(0, 1).copy_(w.transpose(0, 1) * 2)
        return w + y + z


class LimitedNorms(nn.Module):
    """Embeddings that renormalise their weights when they are read."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 6, max_norm=0.5)
        self.bag = nn.EmbeddingBag(9, 6, max_norm=0.3, mode="sum")
        self.layers = linears(3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.layers[1](self.layers[0](self.embedding(ids)))
        x = self.layers[2](x + self.embedding(ids * 0 + 2))
        return x @ self.embedding.weight.t() @ self.bag.weight + self.bag(ids)[:, None]

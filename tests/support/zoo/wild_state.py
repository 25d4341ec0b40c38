"""Memory, state, and what the language of TorchScript offers, as authors use it."""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, rand, randint, randn


class NeuralTuring(nn.Module):
    """A memory read and written step by step; the initial memory is a buffer."""

    def __init__(self, n=6, w=8):
        super().__init__()
        self.register_buffer("memory", randn(n, w) * 0.1)
        self.control = nn.LSTMCell(5 + w, 16)
        self.key, self.erase, self.add_, self.out = nn.Linear(16, w), nn.Linear(16, w), nn.Linear(16, w), nn.Linear(16 + w, 5)

    def forward(self, x: Tensor) -> Tensor:
        b = x.size(0)
        m = self.memory.unsqueeze(0).expand(b, -1, -1).clone()
        r = torch.zeros(b, m.size(2))
        h, c = torch.zeros(b, 16), torch.zeros(b, 16)
        outs: List[Tensor] = []
        for t in range(x.size(1)):
            h, c = self.control(torch.cat([x[:, t], r], 1), (h, c))
            a = torch.softmax(F.cosine_similarity(m, self.key(h).unsqueeze(1), dim=-1) * 5, -1)
            e, d = torch.sigmoid(self.erase(h)), torch.tanh(self.add_(h))
            m = m * (1 - a.unsqueeze(2) * e.unsqueeze(1)) + a.unsqueeze(2) * d.unsqueeze(1)
            r = (a.unsqueeze(2) * m).sum(1)
            outs.append(self.out(torch.cat([h, r], 1)))
        return torch.stack(outs, 1)


class MomentumContrast(nn.Module):
    """MoCo: a queue and a momentum copy in buffers, written in every forward of training."""

    def __init__(self, w=8, k: int = 16):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(6, w), nn.ReLU(), nn.Linear(w, w))
        self.k = nn.Sequential(nn.Linear(6, w), nn.ReLU(), nn.Linear(w, w))
        for p in self.k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(randn(w, k), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))
        self.K = k

    def forward(self, a: Tensor, b: Tensor) -> Tuple[Tensor, Tensor]:
        q = F.normalize(self.q(a), dim=1)
        with torch.no_grad():
            key = F.normalize(self.k(b), dim=1)
        positive = torch.einsum("nc,nc->n", q, key).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        at = int(self.pointer)
        n = key.size(0)
        self.queue[:, at : at + n] = key.t()
        self.pointer[0] = (at + n) % self.K
        return torch.cat([positive, negative], 1) / 0.07, torch.zeros(n, dtype=torch.long)


class Ema(nn.Module):
    """Normalisation with running statistics of its own, in train mode."""

    def __init__(self, w=8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.register_buffer("mean", torch.zeros(w))
        self.register_buffer("var", torch.ones(w))
        self.register_buffer("steps", torch.tensor(0, dtype=torch.long))
        self.m = 0.1

    def norm(self, x: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
            with torch.no_grad():
                self.mean = (1 - self.m) * self.mean + self.m * x.mean(0)
                self.var = (1 - self.m) * self.var + self.m * x.var(0)
        return (x - self.mean) / torch.sqrt(self.var + 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.relu(self.b(self.norm(torch.relu(self.a(x))))))


class RotaryCache(nn.Module):
    """Tables in buffers that grow when a longer sequence comes."""

    def __init__(self, w=8):
        super().__init__()
        self.register_buffer("cos", torch.empty(0, w), persistent=False)
        self.register_buffer("sin", torch.empty(0, w), persistent=False)
        self.register_buffer("freq", 1.0 / 10000 ** (torch.arange(0, w, 2).float() / w))
        self.cached: int = 0
        self.layers = nn.ModuleList([nn.Linear(w, w) for _ in range(4)])

    def tables(self, n: int):
        if n > self.cached:
            t = torch.arange(n).float()
            f = torch.outer(t, self.freq)
            e = torch.cat([f, f], -1)
            self.cos = e.cos()
            self.sin = e.sin()
            self.cached = n
        return self.cos[:n], self.sin[:n]

    def forward(self, x: Tensor) -> Tensor:
        cos, sin = self.tables(x.size(1))
        for layer in self.layers:
            h = layer(x)
            a, b = h.chunk(2, -1)
            x = x + h * cos + torch.cat([-b, a], -1) * sin
        return x


class Result(NamedTuple):
    loss: Optional[Tensor]
    logits: Tensor
    hidden: List[Tensor]
    names: Dict[str, int]


class Named(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(w, w) for _ in range(4)])

    def forward(self, x: Tensor, labels: Optional[Tensor] = None, scale: float = 1.0, keep: bool = True) -> Result:
        hidden: List[Tensor] = []
        names: Dict[str, int] = {}
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) * scale
            if keep:
                hidden.append(x)
                names["layer" + str(i)] = x.size(0)
        loss: Optional[Tensor] = None
        if labels is not None:
            loss = F.cross_entropy(x, labels)
        return Result(loss, x, hidden, names)


class Branch(nn.Module):
    """Optional layers, a residual that is a module or None, names of activations."""

    def __init__(self, a, b, act: str, shortcut: bool):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, padding=1)
        self.short = nn.Conv2d(a, b, 1) if shortcut else None
        self.norm = nn.GroupNorm(2, b) if act != "relu" else nn.Identity()
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        if self.act == "relu":
            y = F.relu_(y)
        elif self.act == "gelu":
            y = F.gelu(y)
        else:
            raise ValueError("unknown " + self.act)
        if self.short is not None:
            return y + self.short(x)
        return y


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Branch(3 if i == 0 else 4, 4, "relu" if i % 2 else "gelu", i % 3 == 0) for i in range(6)])
        self.exits = nn.ModuleDict({"2": nn.Linear(4, 3), "5": nn.Linear(4, 3)})
        self.stop = None

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for i, block in enumerate(self.blocks):
            x = block(x)
            for name, head in self.exits.items():
                if name == str(i):
                    out[name] = head(x.mean([2, 3]))
            if self.stop is not None:
                if x.size(1) > 100:
                    return out
        return out


class Registry(nn.Module):
    """Strings decide, dictionaries of lists, sorted, enumerate, comprehension, slices of lists, sets by dict."""

    def __init__(self, w=8):
        super().__init__()
        self.parts = nn.ModuleDict({n: nn.Linear(w, w) for n in ("alpha", "beta", "gamma", "delta")})
        self.order = {"alpha": [0, 1], "beta": [1], "gamma": [2], "delta": [0, 2, 3]}

    def forward(self, x: Tensor, which: List[str]) -> Tensor:
        results: Dict[str, Tensor] = {}
        for name, part in self.parts.items():
            if name in which:
                x = part(x)
            results[name] = x.tanh()
        keys = sorted(results.keys())
        found: List[Tensor] = []
        for k in keys[::2]:
            found.append(results[k])
        total = torch.stack(found).sum(0)
        for name, picks in self.order.items():
            for p in picks:
                total = total + results[name] * ((p + 1) / len(picks))
        return total


class Ragged(nn.Module):
    """Padding and unpadding: pad_sequence, split with sizes from data, boolean indexing."""

    def __init__(self, w=6):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        flat = torch.relu(self.a(x[mask]))
        lengths: List[int] = mask.sum(1).tolist()
        parts = flat.split(lengths)
        padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
        y = torch.relu(self.b(padded))
        out = torch.zeros(x.size(0), x.size(1), y.size(2))
        out[:, : y.size(1)] = y
        return self.c(out.masked_fill(~mask.unsqueeze(-1), 0.0)).sum(1)


class Sparse(nn.Module):
    """A sparse adjacency that is a buffer, and one made in forward."""

    def __init__(self, n=10):
        super().__init__()
        i = randint(0, n, (2, 25))
        self.register_buffer("index", i)
        self.register_buffer("value", rand(25))
        self.n: int = n
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        adj = torch.sparse_coo_tensor(self.index, self.value, [self.n, self.n])
        h = torch.relu(torch.sparse.mm(adj, self.a(x)))
        return self.b(torch.mm(adj, h))


class SparseBuffer(nn.Module):
    def __init__(self, n=10):
        super().__init__()
        self.register_buffer("adj", torch.sparse_coo_tensor(randint(0, n, (2, 25)), rand(25), (n, n)).coalesce())
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.mm(self.adj, torch.relu(torch.mm(self.adj, self.a(x)))))


class Rotating(nn.Module):
    """Complex rotary embedding: view_as_complex, polar, a complex buffer."""

    def __init__(self, w=8):
        super().__init__()
        f = torch.outer(torch.arange(16).float(), 1.0 / 100 ** (torch.arange(0, w, 2).float() / w))
        self.register_buffer("cis", torch.polar(torch.ones_like(f), f))
        self.layers = nn.ModuleList([nn.Linear(w, w) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        cis = self.cis[: x.size(1)]
        for layer in self.layers:
            q = layer(x)
            z = torch.view_as_complex(q.float().reshape(q.shape[0], q.shape[1], -1, 2)) * cis
            x = x + torch.view_as_real(z).flatten(2).type_as(x)
        return x


class Mixed(nn.Module):
    """Half inside autocast-like casts: layers in float16 and bfloat16 with float norms."""

    def __init__(self, w=16, dtype=torch.float16):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(w, w) for _ in range(4)]).to(dtype)
        self.norms = nn.ModuleList([nn.LayerNorm(w) for _ in range(4)])
        self.dtype: torch.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x).to(self.dtype)).float()
        return x


class Lists(nn.Module):
    """FPN and PAN as lists that are indexed, inserted, reversed and extended."""

    def __init__(self, w=6):
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(w, w, 1) for _ in range(3)])
        self.down = nn.ModuleList([nn.Conv2d(w, w, 3, 2, 1) for _ in range(2)])
        self.body = nn.ModuleList([nn.Conv2d(3 if i == 0 else w, w, 3, 2, 1) for i in range(3)])

    def forward(self, x: Tensor) -> List[Tensor]:
        features: List[Tensor] = []
        for stage in self.body:
            x = F.relu(stage(x))
            features.append(x)
        inner = self.lateral[2](features[-1])
        results = [inner]
        for i in range(1, -1, -1):
            feature = features[i]
            lat = torch.empty(0)
            for j, lateral in enumerate(self.lateral):
                if j == i:
                    lat = lateral(feature)
            inner = lat + F.interpolate(inner, size=feature.shape[-2:], mode="nearest")
            results.insert(0, inner)
        bottom = results[0]
        final = [bottom]
        for i, down in enumerate(self.down):
            bottom = down(bottom) + results[i + 1]
            final.append(bottom)
        final.reverse()
        final.extend([F.max_pool2d(final[0], 1, 2, 0)])
        return final


class Checkpointed(nn.Module):
    """Returns inside with-blocks, no_grad parts, detach, gradients switched in the middle."""

    def __init__(self, w=8):
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(w, w), nn.Tanh(), nn.Linear(w, w))
        self.student = nn.Sequential(nn.Linear(w, w), nn.Tanh(), nn.Linear(w, w))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        with torch.no_grad():
            t = self.teacher(x)
            t = F.softmax(t / 2.0, -1)
        s = F.log_softmax(self.student(x) / 2.0, -1)
        return s, F.kl_div(s, t.detach(), reduction="batchmean")


class Mlpmixer2(nn.Module):
    """einsum everywhere, tensors of strings of ops, unflatten, movedim, roll."""

    def __init__(self, w=8, n=6):
        super().__init__()
        self.mix = nn.ParameterList([nn.Parameter(randn(n, n) * 0.3) for _ in range(3)])
        self.ch = nn.ModuleList([nn.Linear(w, w) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for m, c in zip(self.mix, self.ch):
            x = x + torch.einsum("bnc,nm->bmc", x, torch.tril(m))
            x = torch.roll(x, shifts=1, dims=1)
            x = x + c(x.movedim(1, 2).unflatten(1, [2, -1]).flatten(1, 2).movedim(1, 2))
        return x.amax(1)


class LinearAttention(nn.Module):
    """Retention: recurrent state by a loop over time, decay in a buffer, complex outer products by einsum."""

    def __init__(self, w=8, h: int = 2):
        super().__init__()
        self.qkv = nn.ModuleList([nn.Linear(w, 3 * w) for _ in range(3)])
        self.g = nn.GroupNorm(h, w)
        self.register_buffer("decay", torch.tensor([0.9, 0.95]))
        self.h = h

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        for layer in self.qkv:
            q, k, v = layer(x).view(b, t, 3, self.h, w // self.h).unbind(2)
            state = torch.zeros(b, self.h, w // self.h, w // self.h, dtype=x.dtype)
            out = torch.empty_like(q)
            for i in range(t):
                state = state * self.decay[None, :, None, None] + torch.einsum("bhi,bhj->bhij", k[:, i], v[:, i])
                out[:, i] = torch.einsum("bhi,bhij->bhj", q[:, i], state)
            x = x + self.g(out.reshape(b * t, w)).view(b, t, w)
        return x


class SwitchMoe(nn.Module):
    """Capacity-limited routing: cumsum of one-hot, dispatch by einsum; experts in a list each behind an If."""

    def __init__(self, w=8, e=4):
        super().__init__()
        self.pre, self.post = nn.Linear(w, w), nn.Linear(w, w)
        self.gate = nn.Linear(w, e)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w)) for _ in range(e)])

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = self.pre(x)
        p = self.gate(h).softmax(-1)
        value, index = p.max(-1)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            chosen = torch.where(index == i)[0]
            if chosen.numel() > 0:
                out.index_add_(0, chosen, expert(h[chosen]) * value[chosen].unsqueeze(1))
        return self.post(out + h), p.mean(0)


class Tied(nn.Module):
    """Autoencoder whose decoder is the encoder transposed."""

    def __init__(self):
        super().__init__()
        self.ws = nn.ParameterList([nn.Parameter(randn(b, a) * 0.3) for a, b in ((12, 10), (10, 8), (8, 4))])
        self.bs = nn.ParameterList([nn.Parameter(torch.zeros(n)) for n in (10, 8, 4)])

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        for w, b in zip(self.ws, self.bs):
            x = torch.sigmoid(F.linear(x, w, b))
        code = x
        x = torch.sigmoid(F.linear(x, self.ws[2].t()))
        x = torch.sigmoid(F.linear(x, self.ws[1].t()))
        return F.linear(x, self.ws[0].t()), code


class UniversalTransformer(nn.Module):
    """One layer over and over with adaptive halting."""

    def __init__(self, w=8):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(w, 2, 16, batch_first=True)
        self.halt = nn.Linear(w, 1)
        self.head = nn.Linear(w, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        halting = torch.zeros(x.shape[:2])
        updates = torch.zeros(x.shape[:2])
        result = torch.zeros_like(x)
        step = 0
        while bool((halting < 0.95).any()) and step < 5:
            p = torch.sigmoid(self.halt(x)).squeeze(-1)
            running = (halting < 1.0).to(x.dtype)
            new = ((halting + p * running) > 0.95).to(x.dtype) * running
            p = torch.where(new > 0, 1 - halting, p * running)
            halting = halting + p
            updates = updates + running
            x = self.layer(x)
            result = result + p.unsqueeze(-1) * x
            step += 1
        return self.head(result.mean(1)), updates


class Perplexity(nn.Module):
    """Language model with loss inside, ignore index, shifted labels, cutoffs."""

    def __init__(self, v=40, w=12):
        super().__init__()
        self.e = nn.Embedding(v, w)
        self.rnns = nn.ModuleList([nn.LSTM(w, w, batch_first=True) for _ in range(3)])
        self.out = nn.Linear(w, v)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.e(ids[:, :-1])
        for rnn in self.rnns:
            x = x + rnn(x)[0]
        return F.cross_entropy(self.out(x).transpose(1, 2), ids[:, 1:], ignore_index=3, reduction="none", label_smoothing=0.1).mean(1)


class Norms(nn.Module):
    """Layers of torch.nn that are seldom used."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"),
            nn.InstanceNorm2d(8, affine=True),
            nn.CELU(),
            nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular"),
            nn.LocalResponseNorm(3),
            nn.Hardswish(),
            nn.PixelUnshuffle(2),
            nn.Conv2d(32, 8, 1),
            nn.PixelShuffle(2),
            nn.ReplicationPad2d(1),
            nn.LPPool2d(2, 3, 2),
            nn.Mish(),
            nn.ChannelShuffle(2),
            nn.Softmax2d(),
            nn.AdaptiveMaxPool2d((3, 5)),
            nn.Softsign(),
            nn.Upsample(scale_factor=1.5, mode="bicubic"),
            nn.Threshold(0.05, 0.0),
            nn.RMSNorm(7),
            nn.Linear(7, 4),
            nn.GLU(-1),
            nn.Identity(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Pools(nn.Module):
    """Unpooling with the indices of the encoder (SegNet)."""

    def __init__(self):
        super().__init__()
        c = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        self.e1, self.e2, self.d2, self.d1 = c(3, 6), c(6, 8), c(8, 6), c(6, 3)
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        a, i = self.pool(self.e1(x))
        b, j = self.pool(self.e2(a))
        y = self.d2(self.unpool(b, j, output_size=list(a.size())))
        return self.d1(self.unpool(y, i, output_size=list(x.size())))


class GruState(nn.Module):
    """RAFT in small: a loop of a fixed number of rounds, refined flow, correlation by grid_sample, list of results."""

    def __init__(self, w=6, rounds: int = 4):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1), nn.ReLU())
        self.z, self.r, self.q = (nn.Conv2d(2 * w + 3, w, 3, padding=1) for _ in range(3))
        self.flow = nn.Conv2d(w, 2, 3, padding=1)
        self.rounds = rounds

    def forward(self, a: Tensor, b: Tensor) -> List[Tensor]:
        fa, fb = self.f(torch.cat([a, b], 0)).chunk(2, 0)
        h = torch.tanh(fa)
        n, _, y, x = fa.shape
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, y), torch.linspace(-1, 1, x), indexing="ij")
        base = torch.stack([xs, ys], -1).unsqueeze(0).expand(n, -1, -1, -1)
        flow = torch.zeros(n, 2, y, x)
        out: List[Tensor] = []
        for _ in range(self.rounds):
            flow = flow.detach()
            warped = F.grid_sample(fb, base + flow.permute(0, 2, 3, 1), align_corners=True)
            corr = (fa * warped).sum(1, keepdim=True)
            inp = torch.cat([h, fa, corr, flow], 1)
            z, r = torch.sigmoid(self.z(inp)), torch.sigmoid(self.r(inp))
            q = torch.tanh(self.q(torch.cat([r * h, fa, corr, flow], 1)))
            h = (1 - z) * h + z * q
            flow = flow + self.flow(h)
            out.append(F.interpolate(flow, scale_factor=2.0, mode="bilinear", align_corners=True) * 2)
        return out

"""More programs of our own: what models in the wild do with containers, state, control flow, types and sizes."""
from enum import Enum
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def layers(width, count):
    return nn.ModuleList(nn.Linear(width, width) for _ in range(count))


class Fpn(nn.Module):
    """A pyramid: features in a dict by name, read by keys, returned as a dict."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for _ in range(4))
        self.inner = nn.ModuleList(nn.Conv2d(width, 2 * width, 1) for _ in range(4))
        self.outer = nn.ModuleList(nn.Conv2d(2 * width, 2 * width, 3, padding=1) for _ in range(4))

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        x = F.relu(self.stem(x))
        features: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.body):
            x = F.relu(layer(x), inplace=True)
            features[f"c{i}"] = x
        values = list(features.values())
        names = list(features.keys())
        laterals: List[Tensor] = []
        for i, layer in enumerate(self.inner):
            laterals.append(layer(values[i]))
        last = laterals[3]
        results: List[Tensor] = []
        for i, layer in enumerate(self.outer):
            if i > 0:
                lateral = laterals[3 - i]
                last = lateral + F.interpolate(last, size=[lateral.size(2), lateral.size(3)], mode="nearest")
            results.insert(0, layer(last))
        out: Dict[str, Tensor] = {}
        for name, value in zip(names, results):
            out[name] = value
        out["pool"] = F.max_pool2d(results[3], 1, 2, 0)
        return out


class CachedDecoder(nn.Module):
    """Keys and values of each layer go into a list of tuples, which comes in as an argument and is returned."""

    def __init__(self, width=32, count=6):
        super().__init__()
        self.q, self.k, self.v, self.o = (layers(width, count) for _ in range(4))
        self.embed = nn.Embedding(100, width)

    def forward(self, ids: Tensor, past: Optional[List[Tuple[Tensor, Tensor]]] = None) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        x = self.embed(ids)
        present: List[Tuple[Tensor, Tensor]] = []
        for i, (q, k, v, o) in enumerate(zip(self.q, self.k, self.v, self.o)):
            key, value = k(x), v(x)
            if past is not None:
                key, value = torch.cat([past[i][0], key], 1), torch.cat([past[i][1], value], 1)
            present.append((key, value))
            x = x + o(F.scaled_dot_product_attention(q(x), key, value))
        return x, present


class CacheInBuffers(nn.Module):
    """A cache in a buffer, filled by slice assignment at a position that counts on."""

    cache: Tensor

    def __init__(self, width=32, count=6):
        super().__init__()
        self.first, self.layers = layers(width, count), layers(width, count)
        self.register_buffer("cache", torch.zeros(16, width))
        self.position: int = 0

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        self.cache[self.position:self.position + 1] = x.mean(0, keepdim=True)
        self.position = (self.position + 1) % 16
        x = x + self.cache.sum(0)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class LastHidden(nn.Module):
    """Optional state in an attribute: None at first, then what the last call left."""

    state: Optional[Tensor]
    history: List[int]
    names: Dict[str, int]

    def __init__(self, width=32, count=8):
        super().__init__()
        self.before, self.after = layers(width, count), layers(width, count)
        self.state = None
        self.history = [0]
        self.names = {"calls": 0}

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        for layer in self.before:
            x = torch.tanh(layer(x))
        state = self.state
        if state is not None:
            x = x + state
        self.state = x.mean(0)
        self.history.append(x.size(1))
        self.names["calls"] += 1
        for layer in self.after:
            x = torch.tanh(layer(x))
        return x, len(self.history) + self.names["calls"]


class Mode(Enum):
    SUM = 1
    MAX = 2


class Point(NamedTuple):
    value: Tensor
    rank: int
    label: str


class Kinds(nn.Module):
    """Enums, named tuples, final lists, strings: decided at compile time, returned beside tensors."""

    sizes: Final[List[int]]
    mode: Mode

    def __init__(self, width=32):
        super().__init__()
        self.sizes = [1, 2, 3, 4, 5, 6]
        self.mode = Mode.MAX
        self.layers = layers(width, 6)
        self.label = "wide"

    def pool(self, x: Tensor, mode: Mode) -> Tensor:
        if mode == Mode.SUM:
            return x.sum(1)
        return x.max(1)[0]

    def forward(self, x: Tensor) -> Tuple[Point, Dict[str, Tensor], List[str]]:
        words: List[str] = []
        for size, layer in zip(self.sizes, self.layers):
            x = torch.relu(layer(x)) * size
            words.append(f"{self.label}-{size}")
        return Point(x, x.dim(), self.label), {"pooled": self.pool(x, self.mode), "mean": x.mean(1)}, words


class EarlyReturns(nn.Module):
    """Returns out of loops and nested branches, breaks, continues, raised checks."""

    def __init__(self, width=32):
        super().__init__()
        self.before, self.after = layers(width, 6), layers(width, 6)

    def search(self, x: Tensor, limit: float) -> Tensor:
        for i in range(10):
            if bool(x.abs().max() < limit):
                return x
            if i % 3 == 2:
                continue
            x = x * 0.5
            if bool(x.sum() > 1e6):
                break
        return -x

    def forward(self, x: Tensor, limit: float = 0.5) -> Tensor:
        if x.dim() != 2:
            raise ValueError(f"expected 2 dimensions, got {x.dim()}")
        assert limit > 0, "limit"
        for layer in self.before:
            x = torch.tanh(layer(x))
        x = self.search(x, limit)
        if bool(torch.isnan(x).any()):
            raise RuntimeError("not a number")
        for layer in self.after:
            x = torch.tanh(layer(x))
        return x


class Greedy(nn.Module):
    """Decodes until an end token: one loop whose rounds depend on data, then a stack of layers."""

    def __init__(self, width=32, words=50):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(words, width), nn.GRUCell(width, width), nn.Linear(width, words)
        self.before, self.after = layers(width, 5), layers(words, 5)

    def forward(self, x: Tensor, longest: int = 6) -> Tuple[Tensor, Tensor]:
        for layer in self.before:
            x = torch.tanh(layer(x))
        token = torch.zeros(x.size(0), dtype=torch.long)
        tokens: List[Tensor] = []
        scores: List[Tensor] = []
        done = torch.zeros(x.size(0), dtype=torch.bool)
        while len(tokens) < longest and not bool(done.all()):
            x = self.cell(self.embed(token), x)
            score = self.head(x)
            token = score.argmax(1)
            done = done | (token == 3)
            tokens.append(token)
            scores.append(score)
        y = torch.stack(scores, 1).mean(1)
        for layer in self.after:
            y = torch.tanh(layer(y))
        return y, torch.stack(tokens, 1).float().mean(1)


class Fourier(nn.Module):
    """FNet: mixing by the Fourier transform; complex values between layers."""

    def __init__(self, width=32, count=6):
        super().__init__()
        self.first, self.second = layers(width, count), layers(width, count)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        spectrum = torch.fft.rfft(x, dim=1)
        for first, second in zip(self.first, self.second):
            mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2)
            x = self.norm(x + mixed.real)
            x = x + second(F.gelu(first(x)))
            spectrum = spectrum * torch.fft.rfft(x, dim=1).conj()
        return torch.fft.irfft(spectrum, n=x.size(1), dim=1), spectrum


class Precisions(nn.Module):
    """Values in half, bfloat16, double, integers and booleans between layers."""

    def __init__(self, width=32):
        super().__init__()
        self.a, self.b = layers(width, 3), layers(width, 3).to(torch.bfloat16)
        self.c, self.d = layers(width, 3).to(torch.float64), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        for layer in self.a:
            x = torch.tanh(layer(x))
        h = x.half()
        b = x.to(torch.bfloat16)
        for layer in self.b:
            b = torch.tanh(layer(b))
        d = b.double()
        positive = d > 0
        for layer in self.c:
            d = torch.where(positive, layer(d), d)
        counts = (d * 100).to(torch.int32)
        return self.d(d.float() + h.float()), h * 2, counts, positive


class Bags(nn.Module):
    """Embedding bags of fixed size, one with weights per sample."""

    def __init__(self, width=16):
        super().__init__()
        self.sums, self.means = nn.EmbeddingBag(50, width, mode="sum"), nn.EmbeddingBag(60, width, mode="mean")
        self.most = nn.EmbeddingBag(70, width, mode="max")
        self.mlp = nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(3 * width, 3 * width), nn.ReLU(inplace=True))])

    def forward(self, a: Tensor, weights: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return self.mlp(torch.cat([self.sums(a, per_sample_weights=weights), self.means(b), self.most(c)], 1))


class Recurrent(nn.Module):
    """RNN, GRU and LSTM of every kind; time before batch, states as arguments and results."""

    def __init__(self, width=24):
        super().__init__()
        self.rnn, self.gru = nn.RNN(width, width, 2), nn.GRU(width, width, 1, bidirectional=True)
        self.lstm = nn.LSTM(2 * width, width, 2, proj_size=12, dropout=0.1)
        self.cell = nn.LSTMCell(12, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor, h: Tensor) -> Tuple[Tensor, Tensor, Tuple[Tensor, Tensor]]:
        x, h = self.rnn(x, h)
        x, g = self.gru(x)
        x, state = self.lstm(x)
        cx, cy = torch.zeros(x.size(1), 24), torch.zeros(x.size(1), 24)
        outputs: List[Tensor] = []
        for step in x:
            cx, cy = self.cell(step, (cx, cy))
            outputs.append(cx)
        return self.head(torch.stack(outputs)), h, state


class Packed(nn.Module):
    """Packed sequences: lengths decide how much a recurrent layer computes."""

    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(3))
        self.head = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(width, width), nn.Tanh())])

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            packed, _ = layer(packed)
            x, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=ids.size(1))
        return self.head(x)


class TimeFirst(nn.Module):
    """The batch is the second dimension; a mask and a table that belong to all samples."""

    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 64), 4)

    def forward(self, x: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        return self.encoder(x + table[:, None], mask) @ table.t()


class Decoder(nn.Module):
    """nn.TransformerDecoder with every mask, scripted."""

    def __init__(self, width=32):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, 4, 64, batch_first=True, norm_first=True), 4, nn.LayerNorm(width))

    def forward(self, target: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        mask = torch.full((target.size(1), target.size(1)), float("-inf")).triu(1)
        return self.decoder(target, memory, tgt_mask=mask, memory_key_padding_mask=padding)


class Graph(nn.Module):
    """A graph network: nodes are not a batch; edges are an index list."""

    def __init__(self, width=16, count=6):
        super().__init__()
        self.message, self.update = layers(width, count), layers(width, count)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.size(0)).index_add_(0, target, torch.ones(edges.size(1))).clamp_(min=1)
        for message, update in zip(self.message, self.update):
            total = torch.zeros_like(x)
            total.index_add_(0, target, message(x)[source])
            x = F.relu(update(x) + total / degree[:, None])
        return x


class WaveNet(nn.Module):
    """Dilated causal convolutions, gates from chunks, a running sum of skips written in place."""

    def __init__(self, width=16, count=8):
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** (i % 4)) for i in range(count))
        self.residual, self.skip = (nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(count)) for _ in range(2))
        self.end = nn.Conv1d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        total = torch.zeros_like(x)
        for i, (gate, residual, skip) in enumerate(zip(self.gates, self.residual, self.skip)):
            a, b = gate(F.pad(x, [1 << (i % 4), 0])).chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid_(b)
            total += skip(h)
            x = x + residual(h)
        return self.end(F.relu_(total))


class Parts(nn.Module):
    """split, chunk, unbind and views of one tensor; some are written in place; an index is assigned."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = layers(width, 8)

    def forward(self, x: Tensor) -> Tuple[List[Tensor], Tensor]:
        pieces: List[Tensor] = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            a, b = x.split(16, 1)
            a.mul_(2.0)
            x[:, 0] = b[:, 1]
            x[x > 3] = 3.0
            first, second = x.view(x.size(0), 2, -1).unbind(1)
            x = torch.cat([second, first], 1)
            if i % 3 == 0:
                pieces.append(x.narrow(1, 0, 4))
        return pieces, x.t()


class Slots(nn.Module):
    """A result tensor filled piece by piece, as detection heads and decoders do."""

    def __init__(self, width=16, count=8):
        super().__init__()
        self.layers = layers(width, count)
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        out = x.new_zeros(x.size(0), self.count, x.size(1))
        for i, layer in enumerate(self.layers):
            x = F.silu(layer(x))
            out[:, i] = x
        return out.flatten(1)


class Empty(nn.Module):
    """Tensors without elements, and parts of size zero."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = layers(width, 8)
        self.register_buffer("nothing", torch.zeros(0, width))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        collected = torch.empty(0, x.size(1))
        for layer in self.layers:
            x = torch.tanh(layer(x))
            collected = torch.cat([collected, x[x[:, 0] > 5]], 0)
        return torch.cat([x, self.nothing]), collected.sum(0, keepdim=True) + x[:, :0].sum(1).mean()


class Futures(nn.Module):
    """Branches of an inception block, each forked; waited for in a list."""

    def __init__(self, width=16, count=5):
        super().__init__()
        self.a, self.b, self.c = layers(width, count), layers(width, count), layers(width, count)

    def forward(self, x: Tensor) -> Tensor:
        for a, b, c in zip(self.a, self.b, self.c):
            futures = [torch.jit.fork(a, x), torch.jit.fork(b, x), torch.jit.fork(c, x)]
            results = [torch.jit.wait(future) for future in futures]
            x = torch.stack(results).sum(0).tanh()
        return x


@torch.jit.script
class Running:
    """A class of the model's own: what it keeps is written by its methods."""

    def __init__(self, start: Tensor):
        self.total = start
        self.count = 0

    def add(self, x: Tensor):
        self.total = self.total + x
        self.count += 1

    def mean(self) -> Tensor:
        return self.total / self.count


class Objects(nn.Module):
    """An object of a class of the model's own gathers over all layers."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = layers(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        running = Running(torch.zeros_like(x))
        for layer in self.layers:
            x = torch.tanh(layer(x))
            running.add(x)
        return running.mean()


@torch.jit.interface
class Block(nn.Module):
    def forward(self, x: Tensor, scale: float) -> Tensor:
        pass


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, scale: float) -> Tensor:
        return self.b(F.relu(self.a(x))) * scale


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor, scale: float) -> Tensor:
        return F.glu(self.a(x), 1) + scale


class Holder(nn.Module):
    inner: Block

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.forward(x, 0.7)


class Interfaces(nn.Module):
    """Layers known by their interface only, of several classes."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList(Holder(Plain(width) if i % 2 else Gated(width)) for i in range(8))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Methods(nn.Module):
    """What the user wants is another method; forward calls it too."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = layers(width, 10)

    @torch.jit.export
    def encode(self, x: Tensor, times: int = 1, shift: Optional[Tensor] = None) -> Tensor:
        for _ in range(times):
            for layer in self.layers:
                x = torch.tanh(layer(x))
        return x if shift is None else x + shift

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x, 1, None) * 2


class Unions(nn.Module):
    """Any, Union, isinstance, None tests."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = layers(width, 8)

    def scale(self, x: Tensor, by: Union[int, float, Tensor]) -> Tensor:
        if isinstance(by, int):
            return x * by
        if isinstance(by, float):
            return x / by
        return x + by

    def forward(self, x: Tensor, extra: Any = None) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            x = self.scale(x, i + 1)
            x = self.scale(x, 2.0 + i)
            x = self.scale(x, x.mean())
        if isinstance(extra, Tensor):
            x = x + extra
        return x


class Experts(nn.Module):
    """A few experts of many, each for the samples that choose it; a loss beside the result, counters in a buffer."""

    def __init__(self, width=16, experts=4, count=3):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(count))
        self.experts = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(experts)) for _ in range(count))
        self.register_buffer("used", torch.zeros(experts, dtype=torch.long))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        loss = torch.zeros(x.size(0))
        for gate, experts in zip(self.gates, self.experts):
            scores = gate(x).softmax(-1)
            choice = scores.argmax(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(experts):
                chosen = choice == i
                out[chosen] = expert(x[chosen])
                self.used[i] += chosen.sum()
            x = x + out
            loss = loss + scores.max(-1)[0]
        return x, loss


class Conformer(nn.Module):
    """Half steps, convolution with a gate, attention with relative positions; lengths make a mask."""

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.ff1, self.ff2 = (nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Dropout(0.1),
                                                nn.Linear(2 * width, width)) for _ in range(2))
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, batch_first=True)
            self.conv = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 5, padding=2, groups=width),
                                      nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1))
            self.last = nn.LayerNorm(width)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            x = x + 0.5 * self.ff1(x)
            y = self.norm(x)
            x = x + self.attention(y, y, y, key_padding_mask=mask, need_weights=False)[0]
            x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
            return self.last(x + 0.5 * self.ff2(x))

    def __init__(self, width=32, count=4):
        super().__init__()
        self.down = nn.Conv1d(20, width, 3, 2, 1)
        self.layers = nn.ModuleList(self.Layer(width, 4) for _ in range(count))

    def forward(self, frames: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        x = self.down(frames).transpose(1, 2)
        lengths = (lengths + 1) // 2
        mask = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, mask)
        return x, lengths


class Diffusion(nn.Module):
    """A denoising U-Net: time embedding for every block, group norm, attention, skips in a list."""

    class Res(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.n1, self.c1, self.t = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1), nn.Linear(32, o)
            self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
            self.short = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
            return self.short(x) + self.c2(F.silu(self.n2(h)))

    def __init__(self, width=16):
        super().__init__()
        self.start, self.time = nn.Conv2d(3, width, 3, padding=1), nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 32))
        self.down = nn.ModuleList([self.Res(width, width), self.Res(width, 2 * width), self.Res(2 * width, 2 * width)])
        self.middle, self.attention = self.Res(2 * width, 2 * width), nn.MultiheadAttention(2 * width, 2, batch_first=True)
        self.up = nn.ModuleList([self.Res(4 * width, 2 * width), self.Res(4 * width, width), self.Res(2 * width, width)])
        self.end = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        frequencies = torch.exp(torch.arange(16, dtype=x.dtype, device=x.device) * -0.5)
        angles = step[:, None].to(x.dtype) * frequencies
        t = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.start(x)
        skips = []
        for block in self.down:
            x = block(x, t)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        b, c, h, w = x.shape
        flat = x.flatten(2).transpose(1, 2)
        x = x + self.attention(flat, flat, flat)[0].transpose(1, 2).reshape(b, c, h, w)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, skips.pop()], 1), t)
        return self.end(x)


class Vae(nn.Module):
    """Draws between encoder and decoder; loss terms as scalars beside the result."""

    def __init__(self, width=32):
        super().__init__()
        self.encoder, self.decoder = layers(width, 4), layers(width, 4)
        self.mean, self.deviation = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        h = x
        for layer in self.encoder:
            h = F.relu(layer(h))
        mean, deviation = self.mean(h), self.deviation(h).mul(0.5).exp_()
        z = mean + deviation * torch.randn_like(deviation)
        for layer in self.decoder:
            z = F.relu(F.dropout(layer(z), 0.2))
        return z, F.mse_loss(z, x), (mean ** 2 + deviation ** 2).sum(1)


class Scan(nn.Module):
    """A state space model: an unrolled recurrence that writes each step into a buffer made for it."""

    def __init__(self, width=16, state=4, count=3):
        super().__init__()
        self.inp, self.dt, self.bc, self.out = (nn.ModuleList(nn.Linear(width, o) for _ in range(count)) for o in (width, width, 2 * state, width))
        self.a = nn.Parameter(-torch.rand(count, width, state))
        self.state = state

    def forward(self, x: Tensor) -> Tensor:
        for i, (inp, dt, bc, out) in enumerate(zip(self.inp, self.dt, self.bc, self.out)):
            u, delta = inp(x), F.softplus(dt(x))
            b, c = bc(x).split(self.state, -1)
            h = torch.zeros(x.size(0), x.size(2), self.state, dtype=x.dtype)
            y = torch.empty_like(u)
            for t in range(x.size(1)):
                h = h * torch.exp(delta[:, t, :, None] * self.a[i]) + (delta[:, t] * u[:, t])[..., None] * b[:, t, None]
                y[:, t] = (h * c[:, t, None]).sum(-1)
            x = x + out(y * F.silu(u))
        return x


@torch.jit.script
def clipped(x: Tensor, limit: float) -> Tensor:
    if bool(x.max() > limit):
        x = x.clamp(max=limit)
    return x


class ScriptInTrace(nn.Module):
    """Traced around a scripted function with a branch; a dict comes in, a dict goes out."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = layers(width, 8)

    def forward(self, inputs):
        x = inputs["a"] + inputs["b"]
        hidden = []
        for layer in self.layers:
            x = clipped(layer(x), 0.3)
            hidden.append(x)
        return {"last": x, "hidden": torch.stack(hidden, 1)}


class SharedTables(nn.Module):
    """Parameter lists and dicts, a tied head, normalised weights, buffers that views of a parameter."""

    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(width, width) * 0.2) for _ in range(6)])
        self.extra = nn.ParameterDict({"scale": nn.Parameter(torch.rand(width)), "shift": nn.Parameter(torch.rand(width))})
        self.head = nn.Linear(width, 40, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.utils.parametrizations.weight_norm(nn.Linear(width, width))
        self.register_buffer("row", self.weights[0].detach()[0])

    def forward(self, ids):
        x = self.embed(ids)
        for weight in self.weights:
            x = torch.tanh(x @ weight) * self.extra["scale"] + self.extra["shift"]
        x = self.norm(x)
        logits = self.head(x + self.row)
        kept = logits.topk(5, -1)
        positions = (ids != 0).cumsum(1)
        return kept.values, kept.indices, positions, torch.einsum("btd,bsd->bts", x, x).sort(-1)[0]


class Talks(nn.Module):
    """Prints, warns and asserts between layers."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = layers(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i == 2:
                print("after", i, "of", len(self.layers), x.size(1))
            torch._assert(x.size(1) == 16, "width")
        return x

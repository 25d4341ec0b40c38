"""Recurrent and generative models as their authors write them."""

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, randn


class Attention(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, 1)

    def forward(self, query: Tensor, keys: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        score = self.v(torch.tanh(self.q(query).unsqueeze(1) + self.k(keys))).squeeze(-1)
        if mask is not None:
            score = score.masked_fill(mask == 0, float("-inf"))
        weight = torch.softmax(score, -1)
        return torch.bmm(weight.unsqueeze(1), keys).squeeze(1), weight


class Seq2Seq(nn.Module):
    """GRU with attention; the decoder's loop runs over the target's length."""

    def __init__(self, v=60, w=24):
        super().__init__()
        self.src, self.tgt = nn.Embedding(v, w), nn.Embedding(v, w)
        self.encoder = nn.GRU(w, w, 2, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * w, w)
        self.attention = Attention(w)
        self.cell = nn.GRUCell(2 * w, w)
        self.out = nn.Sequential(nn.Linear(2 * w, w), nn.Tanh(), nn.Linear(w, v))

    def forward(self, src: Tensor, tgt: Tensor, mask: Optional[Tensor] = None) -> Dict[str, Tensor]:
        memory, _ = self.encoder(self.src(src))
        memory = torch.tanh(self.bridge(memory))
        state = memory.mean(1)
        outs: List[Tensor] = []
        weights: List[Tensor] = []
        for t in range(tgt.size(1)):
            context, weight = self.attention(state, memory, mask)
            state = self.cell(torch.cat([self.tgt(tgt[:, t]), context], -1), state)
            outs.append(self.out(torch.cat([state, context], -1)))
            weights.append(weight)
        return {"logits": torch.stack(outs, 1), "alignment": torch.stack(weights, 1)}


class Beam(nn.Module):
    """Beam search: a stack of layers as encoder, a loop with topk and gather, early stop."""

    def __init__(self, v=30, w=16, beams: int = 3, limit: int = 6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w), nn.Tanh())
        self.embed = nn.Embedding(v, w)
        self.cell = nn.LSTMCell(w, w)
        self.head = nn.Linear(w, v)
        self.beams: int = beams
        self.limit: int = limit
        self.v: int = v

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        b = x.size(0)
        h = self.encoder(x).repeat_interleave(self.beams, 0)
        c = torch.zeros_like(h)
        scores = torch.zeros([b, self.beams], device=x.device)
        scores[:, 1:] = -1e9
        ids = torch.ones([b, self.beams, 1], dtype=torch.long)
        done = torch.zeros([b, self.beams], dtype=torch.bool)
        for step in range(self.limit):
            h, c = self.cell(self.embed(ids[:, :, -1].reshape(-1)), (h, c))
            logp = F.log_softmax(self.head(h), -1).view(b, self.beams, -1)
            logp = torch.where(done.unsqueeze(-1), torch.zeros_like(logp), logp)
            total = (scores.unsqueeze(-1) + logp).view(b, -1)
            scores, index = total.topk(self.beams, -1)
            parent = torch.div(index, self.v, rounding_mode="floor")
            token = index % self.v
            ids = torch.cat([ids.gather(1, parent.unsqueeze(-1).expand(-1, -1, ids.size(2))), token.unsqueeze(-1)], -1)
            flat = (parent + torch.arange(b).unsqueeze(1) * self.beams).view(-1)
            h, c = h[flat], c[flat]
            done = done.gather(1, parent) | (token == 2)
            if bool(done.all()):
                break
        return ids, scores


class Transducer(nn.Module):
    """RNN-T joint network: broadcast sum of encoder and predictor, lengths carried along."""

    def __init__(self, w=20, v=15):
        super().__init__()
        self.enc = nn.ModuleList([nn.LSTM(10 if i == 0 else w, w, batch_first=True) for i in range(3)])
        self.embed = nn.Embedding(v, w, padding_idx=0)
        self.pred = nn.LSTM(w, w, batch_first=True)
        self.joint = nn.Sequential(nn.ReLU(), nn.Linear(w, v))
        self.reduce: int = 2

    def forward(self, x: Tensor, lengths: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
        for i, layer in enumerate(self.enc):
            x, _ = layer(x)
            if i == 0:
                n = x.size(1) // self.reduce * self.reduce
                x = x[:, :n].reshape(x.size(0), n // self.reduce, -1)[:, :, : x.size(2)]
                lengths = torch.div(lengths, self.reduce, rounding_mode="floor")
        p, _ = self.pred(self.embed(F.pad(y, [1, 0], value=0.0)))
        return F.log_softmax(self.joint(x.unsqueeze(2) + p.unsqueeze(1)), -1), lengths


class CharCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 12, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(12, 8, k, padding=k // 2) for k in (3, 5, 7)])
        self.high = nn.ModuleList([nn.Linear(24, 48) for _ in range(3)])
        self.out = nn.Linear(24, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.e(ids).transpose(1, 2)
        x = torch.cat([F.relu(conv(x)).max(dim=2)[0] for conv in self.convs], 1)
        for layer in self.high:
            h, g = layer(x).chunk(2, 1)
            g = torch.sigmoid(g)
            x = g * F.relu(h) + (1 - g) * x
        return F.log_softmax(self.out(x), dim=1)


class Chomp(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n = n

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.n].contiguous()


def tcn():
    from torch.nn.utils.parametrizations import weight_norm

    layers = []
    for i in range(4):
        layers += [weight_norm(nn.Conv1d(4 if i == 0 else 8, 8, 3, padding=2 * 2**i, dilation=2**i)), Chomp(2 * 2**i), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))


def oldWeightNorm():
    layers = []
    for i in range(3):
        layers += [torch.nn.utils.weight_norm(nn.Linear(8, 8)), nn.ELU()]
    return nn.Sequential(*layers, nn.utils.spectral_norm(nn.Linear(8, 3)))


class Crf(nn.Module):
    """Emissions and Viterbi decoding with back pointers."""

    def __init__(self, tags=5):
        super().__init__()
        self.emit = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, tags))
        self.trans = nn.Parameter(randn(tags, tags))
        self.start = nn.Parameter(randn(tags))

    def forward(self, x: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
        e = self.emit(x).transpose(0, 1)
        m = mask.transpose(0, 1)
        score = self.start + e[0]
        history = []
        for t in range(1, e.size(0)):
            best, index = (score.unsqueeze(2) + self.trans + e[t].unsqueeze(1)).max(1)
            score = torch.where(m[t].unsqueeze(1), best, score)
            history.append(index)
        value, last = score.max(1)
        path = [last]
        for t in range(len(history) - 1, -1, -1):
            last = history[t].gather(1, last.unsqueeze(1)).squeeze(1)
            path.insert(0, last)
        return value, torch.stack(path, 1)


class LayerNormLstmCell(nn.Module):
    def __init__(self, i: int, h: int):
        super().__init__()
        self.w = nn.Parameter(randn(4 * h, i) * 0.2)
        self.u = nn.Parameter(randn(4 * h, h) * 0.2)
        self.n1, self.n2, self.n3 = nn.LayerNorm(4 * h), nn.LayerNorm(4 * h), nn.LayerNorm(h)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        h, c = state
        gates = self.n1(torch.mm(x, self.w.t())) + self.n2(torch.mm(h, self.u.t()))
        i, f, g, o = gates.chunk(4, 1)
        c = self.n3(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class CustomLstmLayer(nn.Module):
    def __init__(self, i: int, h: int, reverse: bool):
        super().__init__()
        self.cell = LayerNormLstmCell(i, h)
        self.reverse = reverse

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = x.unbind(0)
        if self.reverse:
            inputs = inputs[::-1]
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        if self.reverse:
            outputs.reverse()
        return torch.stack(outputs), state


class CustomLstm(nn.Module):
    """torch's benchmark of custom LSTMs: bidirectional layers with states in lists of lists of pairs."""

    def __init__(self, w=12):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.ModuleList([CustomLstmLayer(w if n == 0 else 2 * w, w, False), CustomLstmLayer(w if n == 0 else 2 * w, w, True)]) for n in range(3)]
        )

    def forward(self, x: Tensor, states: List[List[Tuple[Tensor, Tensor]]]) -> Tuple[Tensor, List[List[Tuple[Tensor, Tensor]]]]:
        x = x.transpose(0, 1)
        result = torch.jit.annotate(List[List[Tuple[Tensor, Tensor]]], [])
        n = 0
        for pair in self.layers:
            outs = torch.jit.annotate(List[Tensor], [])
            kept = torch.jit.annotate(List[Tuple[Tensor, Tensor]], [])
            d = 0
            for direction in pair:
                y, s = direction(x, states[n][d])
                outs += [y]
                kept += [s]
                d += 1
            x = torch.cat(outs, -1)
            result += [kept]
            n += 1
        return x.transpose(0, 1), result


class Generator(nn.Module):
    def __init__(self, z=8, classes=4):
        super().__init__()
        self.embed = nn.Embedding(classes, z)
        up = lambda a, b: nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))
        self.first = nn.Sequential(nn.ConvTranspose2d(2 * z, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True))
        self.ups = nn.Sequential(up(32, 16), up(16, 8))
        self.last = nn.Sequential(nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z: Tensor, label: Tensor) -> Tensor:
        x = torch.cat([z, self.embed(label)], 1)[:, :, None, None]
        return self.last(self.ups(self.first(x)))


class Modulated(nn.Module):
    """StyleGAN2's convolution: one group per sample, weights from the style."""

    def __init__(self, a, b, w, up: bool):
        super().__init__()
        self.weight = nn.Parameter(randn(1, b, a, 3, 3))
        self.style = nn.Linear(w, a)
        self.noise = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, b, 1, 1))
        self.up = up

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        b, c, h, wd = x.shape
        weight = self.weight * self.style(w).view(b, 1, c, 1, 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        if self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = F.conv2d(x.reshape(1, b * c, x.size(2), x.size(3)), weight.view(-1, c, 3, 3), padding=1, groups=b)
        x = x.view(b, -1, x.size(2), x.size(3))
        return F.leaky_relu(x + self.bias, 0.2) * math.sqrt(2)


class StyleGan(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.mapping = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(w, w), nn.LeakyReLU(0.2))])
        self.const = nn.Parameter(randn(1, 8, 4, 4))
        self.blocks = nn.ModuleList([Modulated(8, 8, w, i % 2 == 1) for i in range(5)])
        self.rgb = nn.ModuleList([nn.Conv2d(8, 3, 1) for _ in range(5)])

    def forward(self, z: Tensor, truncation: float = 0.7) -> Tensor:
        z = z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8)
        w = self.mapping(z)
        w = w.mean(0, keepdim=True).detach() * 0 + truncation * w
        x = self.const.repeat(z.size(0), 1, 1, 1)
        image: Optional[Tensor] = None
        for block, rgb in zip(self.blocks, self.rgb):
            x = block(x, w)
            y = rgb(x)
            if image is not None:
                if image.size(2) != y.size(2):
                    image = F.interpolate(image, scale_factor=2.0)
                y = y + image
            image = y
        assert image is not None
        return torch.clamp(image, -1, 1)


class VectorQuantised(nn.Module):
    def __init__(self, k=16, w=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, w, 4, 2, 1))
        self.register_buffer("book", randn(k, w))
        self.register_buffer("count", torch.zeros(k))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(w, w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(w, 3, 4, 2, 1))

    def forward(self, x: Tensor):
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.size(-1))
        index = torch.argmin(torch.cdist(flat, self.book), 1)
        hot = F.one_hot(index, self.book.size(0)).to(z.dtype)
        if self.training:
            self.count.mul_(0.99).add_(hot.sum(0), alpha=0.01)
            self.book.lerp_(hot.t() @ flat / (hot.sum(0).unsqueeze(1) + 1e-5), 0.01)
        q = F.embedding(index, self.book).view(z.shape)
        loss = F.mse_loss(q, z)
        q = z + (q - z).detach()
        return self.decoder(q.permute(0, 3, 1, 2)), loss, index.view(z.shape[:-1])


class Flow(nn.Module):
    """RealNVP: coupling layers, log determinants, both directions by a flag."""

    def __init__(self, w=8, n=6):
        super().__init__()
        self.s = nn.ModuleList([nn.Sequential(nn.Linear(w, 16), nn.Tanh(), nn.Linear(16, w), nn.Tanh()) for _ in range(n)])
        self.t = nn.ModuleList([nn.Sequential(nn.Linear(w, 16), nn.ReLU(), nn.Linear(16, w)) for _ in range(n)])
        self.register_buffer("mask", torch.tensor([[float((i + j) % 2) for j in range(w)] for i in range(n)]))

    def forward(self, x: Tensor, reverse: bool = False) -> Tuple[Tensor, Tensor]:
        logdet = torch.zeros(x.size(0), dtype=x.dtype, device=x.device)
        if reverse:
            for i, (s, t) in enumerate(zip(self.s, self.t)):
                m = self.mask[i]
                held = x * m
                x = held + (1 - m) * (x * torch.exp(s(held)) + t(held))
        else:
            i = len(self.s)
            for s, t in zip(self.s, self.t):
                i -= 1
                m = self.mask[i]
                held = x * m
                scale = s(held) * (1 - m)
                x = held + (1 - m) * (x - t(held)) * torch.exp(-scale)
                logdet -= scale.sum(1)
        return x, logdet


class Ode(nn.Module):
    """Neural ODE by Runge-Kutta of fixed steps."""

    def __init__(self, w=8, steps: int = 5):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(w + 1, 16), nn.Tanh(), nn.Linear(16, w))
        self.enc, self.dec = nn.Linear(w, w), nn.Linear(w, 3)
        self.steps = steps

    def slope(self, t: float, y: Tensor) -> Tensor:
        return self.f(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        y = self.enc(x)
        h = 1.0 / self.steps
        way = [y]
        for i in range(self.steps):
            t = i * h
            k1 = self.slope(t, y)
            k2 = self.slope(t + h / 2, y + h / 2 * k1)
            k3 = self.slope(t + h / 2, y + h / 2 * k2)
            k4 = self.slope(t + h, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            way.append(y)
        return self.dec(y), way


class AdaptiveOde(Ode):
    """The step is halved until the error is small: loops that depend on data."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        y = self.enc(x)
        t, h = 0.0, 0.5
        tries = 0
        while t < 1.0 and tries < 20:
            a = y + h * self.slope(t, y)
            half = y + h / 2 * self.slope(t, y)
            b = half + h / 2 * self.slope(t + h / 2, half)
            error = float((a - b).abs().max())
            if error < 0.05:
                y = b
                t += h
            else:
                h = h / 2
            tries += 1
        return self.dec(y), [y]


class Deq(nn.Module):
    """Deep equilibrium: fixed point by iteration until converged, then a classifier."""

    def __init__(self, w=8):
        super().__init__()
        self.inject = nn.Sequential(nn.Linear(w, w), nn.LayerNorm(w))
        self.step = nn.Linear(w, w)
        with torch.no_grad():
            self.step.weight.mul_(0.3)
        self.head = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 3))

    def forward(self, x: Tensor) -> Tuple[Tensor, int]:
        u = self.inject(x)
        z = torch.zeros_like(u)
        n = 0
        while n < 50:
            new = torch.tanh(self.step(z) + u)
            n += 1
            if torch.dist(new, z).item() < 1e-3:
                z = new
                break
            z = new
        return self.head(z), n

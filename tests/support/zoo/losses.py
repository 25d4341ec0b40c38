"""Trainings as authors write them: models that return their loss. `training_zoo.py --strangers ^lo_` expects equal gradients of each."""
from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, randint, randn

from registry import add


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def fin(self, h: Tensor, y: Tensor) -> Tensor:
        return ((h - y) ** 2).mean()


class Ctc(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(6, 16, 3, 2, 1)
        self.l = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.o = nn.Linear(24, 9)
        self.ln = nn.LayerNorm(16)

    def forward(self, x: Tensor, y: Tensor, xl: Tensor, yl: Tensor) -> Tensor:
        h = F.gelu(self.c(x.transpose(1, 2))).transpose(1, 2)
        h, _ = self.l(self.ln(h))
        lp = F.log_softmax(self.o(h), -1).transpose(0, 1)
        return F.ctc_loss(lp, y, xl, yl, 0, "mean", True)


class VqvaeEma(nn.Module):
    def __init__(self, k=6, w=4):
        super().__init__()
        self.enc, self.dec = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, w)), nn.Sequential(nn.Linear(w, 16), nn.ReLU(), nn.Linear(16, 8))
        self.register_buffer("book", torch.randn(k, w))
        self.register_buffer("size", torch.ones(k))
        self.register_buffer("avg", torch.randn(k, w))

    def forward(self, x: Tensor) -> Tensor:
        z = self.enc(x)
        d = torch.cdist(z, self.book)
        i = d.argmin(1)
        q = F.embedding(i, self.book)
        if self.training:
            with torch.no_grad():
                oh = F.one_hot(i, self.book.size(0)).float()
                self.size.mul_(0.9).add_(oh.sum(0), alpha=0.1)
                self.avg.mul_(0.9).add_(oh.t() @ z, alpha=0.1)
                self.book.copy_(self.avg / (self.size + 0.001).unsqueeze(1))
        st = z + (q - z).detach()
        return F.mse_loss(self.dec(st), x) + 0.25 * F.mse_loss(z, q.detach())


class Rnnt(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.LSTM(5, 8, batch_first=True)
        self.emb = nn.Embedding(7, 8)
        self.pred = nn.GRU(8, 8, batch_first=True)
        self.j1, self.j2 = nn.Linear(8, 8), nn.Linear(8, 7)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        e, _ = self.enc(x)
        n = x.size(0)
        U = y.size(1)
        p, _ = self.pred(torch.cat([torch.zeros(n, 1, 8), self.emb(y)], 1))
        lp = self.j2(torch.tanh(self.j1(e.unsqueeze(2) + p.unsqueeze(1)))).log_softmax(-1)
        bl = lp[..., 0]
        lab = lp[:, :, :U].gather(3, y[:, None, :, None].expand(-1, x.size(1), -1, 1)).squeeze(3)
        rows: List[Tensor] = []
        for t in range(x.size(1)):
            row: List[Tensor] = []
            for u in range(U + 1):
                if t == 0 and u == 0:
                    row.append(torch.zeros(n))
                elif t == 0:
                    row.append(row[u - 1] + lab[:, 0, u - 1])
                elif u == 0:
                    row.append(rows[t - 1][:, 0] + bl[:, t - 1, 0])
                else:
                    row.append(torch.logaddexp(row[u - 1] + lab[:, t, u - 1], rows[t - 1][:, u] + bl[:, t - 1, u]))
            rows.append(torch.stack(row, 1))
        return -(rows[-1][:, -1] + bl[:, -1, U]).mean()


class SpectralManual(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(3, 8))
        self.register_buffer("u1", F.normalize(torch.randn(8), dim=0))
        self.register_buffer("u2", F.normalize(torch.randn(8), dim=0))
        self.g = nn.Parameter(torch.ones(3, 1))

    def sn(self, w: Tensor, u: Tensor) -> Tensor:
        with torch.no_grad():
            v = F.normalize(w.t() @ u, dim=0)
            if self.training:
                u.copy_(F.normalize(w @ v, dim=0))
        s = torch.dot(u.clone(), w @ v)
        return w / s

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = F.leaky_relu(F.linear(x, self.sn(self.w1, self.u1)), 0.2)
        x = F.leaky_relu(F.linear(x, self.sn(self.w2, self.u2)), 0.2)
        w3 = self.g * self.w3 / torch.linalg.vector_norm(self.w3, 2, 1, True)
        return (F.linear(x, w3) - y).abs().mean()


class SiamesePairwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.s = nn.Bilinear(8, 8, 1)
        self.g = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        a, b = self.n(x[:, 0]), self.n(x[:, 1])
        d = F.pairwise_distance(a, b) * self.g
        z = self.s(a, b).squeeze(1)
        return F.binary_cross_entropy_with_logits(z - d, y.float()) + F.cosine_embedding_loss(a, b, y * 2 - 1)


class QatSte(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)])
        self.register_buffer("mx", torch.zeros(3))

    def q(self, x: Tensor, s: Tensor) -> Tensor:
        y = torch.round(x / s).clamp(-8, 7) * s
        return x + (y - x).detach()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for i, l in enumerate(self.l):
            self.mx[i] = 0.9 * self.mx[i] + 0.1 * x.detach().abs().max()
            w = self.q(l.weight, l.weight.detach().abs().max() / 7)
            x = F.linear(self.q(x, self.mx[i].clone() / 7 + 0.001), w, l.bias)
            if i < 2:
                x = torch.relu(x)
        return F.cross_entropy(x, y)


class FakeQuantOps(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.s = nn.Parameter(torch.tensor([0.1]))
        self.z = nn.Parameter(torch.tensor([0.0]))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = torch.fake_quantize_per_tensor_affine(self.a(x), 0.1, 0, -128, 127)
        x = torch._fake_quantize_learnable_per_tensor_affine(torch.relu(self.b(x)), self.s, self.z, -128, 127, 1.0)
        return F.cross_entropy(self.c(x), y)


class ComplexGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat) * 0.2)
        self.w2 = nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat) * 0.2)
        self.ph = nn.Parameter(torch.rand(8))
        self.l = nn.Linear(16, 16)
        self.o = nn.Linear(8, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = torch.complex(x, torch.zeros_like(x)) @ self.w1
        z = z * torch.polar(torch.ones_like(self.ph), self.ph)
        z = torch.fft.ifft(torch.fft.fft(z) * torch.fft.fft(self.w2[0]))
        z = torch.complex(F.gelu(z.real), torch.tanh(z.imag)) @ self.w2
        r = torch.view_as_real(z).flatten(1)
        return ((self.o(F.glu(self.l(r), 1)) - y) ** 2).mean() + 0.01 * z.abs().mean()


class MlmTied(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.e = nn.Embedding(40, w, padding_idx=0)
        self.p = nn.Parameter(torch.randn(8, w) * 0.02)
        self.l = nn.ModuleList((nn.TransformerEncoderLayer(w, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(3)))
        self.h = nn.Linear(w, w)
        self.n = nn.LayerNorm(w)
        self.b = nn.Parameter(torch.zeros(40))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        pad = x == 0
        h = self.e(x) + self.p
        for l in self.l:
            h = l(h, src_key_padding_mask=pad)
        h = self.n(F.gelu(self.h(h)))
        return F.cross_entropy(F.linear(h, self.e.weight, self.b).flatten(0, 1), y.flatten(), label_smoothing=0.1)


class SsmScan(nn.Module):
    def __init__(self):
        super().__init__()
        self.A = nn.Parameter(-torch.rand(4, 3))
        self.B, self.C, self.dt = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 4)
        self.D = nn.Parameter(torch.ones(4))
        self.cv = nn.Conv1d(4, 4, 3, padding=2, groups=4)
        self.o = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = F.silu(self.cv(x.transpose(1, 2))[:, :, :x.size(1)].transpose(1, 2))
        dt = F.softplus(self.dt(x))
        B = self.B(x)
        C = self.C(x)
        h = torch.zeros(x.size(0), 4, 3)
        ys: List[Tensor] = []
        for t in range(x.size(1)):
            h = h * torch.exp(dt[:, t].unsqueeze(2) * self.A) + (dt[:, t] * x[:, t]).unsqueeze(2) * B[:, t].unsqueeze(1)
            ys.append((h * C[:, t].unsqueeze(1)).sum(2) + self.D * x[:, t])
        return F.mse_loss(self.o(torch.stack(ys, 1)), y)


class Reinforce(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.p, self.v = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, s: Tensor, r: Tensor, a: Tensor) -> Tensor:
        h = self.t(s)
        lp = F.log_softmax(self.p(h), 1)
        v = self.v(h).squeeze(1)
        adv = (r - v).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-05)
        ent = -(lp.exp() * lp).sum(1).mean()
        return -(lp.gather(1, a.unsqueeze(1)).squeeze(1) * adv).mean() + 0.5 * F.mse_loss(v, r) - 0.01 * ent


class DqnTargetCopy(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        self.t = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, s: Tensor, a: Tensor, r: Tensor, s2: Tensor) -> Tensor:
        q = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            y = r + 0.9 * self.t(s2).max(1)[0]
            self.t[0].weight.mul_(0.9).add_(self.q[0].weight, alpha=0.1)
            self.steps += 1
        return F.smooth_l1_loss(q, y)


class Arcface(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))
        self.w = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        c = F.linear(F.normalize(self.n(x)), F.normalize(self.w)).clamp(-0.999, 0.999)
        t = torch.acos(c)
        m = torch.zeros_like(c)
        m.scatter_(1, y.unsqueeze(1), 0.5)
        return F.cross_entropy(torch.cos(t + m) * 16, y)


class LossNogradBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.relu(self.a(x))
        with torch.no_grad():
            g = torch.sigmoid(self.b(h))
            g2 = g * 1.0
        torch.set_grad_enabled(False)
        g3 = self.b(h) * 2
        torch.set_grad_enabled(True)
        e = self.b(h) * 0.1 + g3
        h = h * g2 + e
        l = ((self.c(h) - y) ** 2).mean()
        return l / l.detach()


class Linalg(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.c = nn.Parameter(torch.eye(4) * 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        k = self.a(x)
        K = k @ k.transpose(1, 2) + self.c @ self.c.t() + 0.5 * torch.eye(4)
        L = torch.linalg.cholesky(K)
        z = torch.cholesky_solve(y.unsqueeze(2), L).squeeze(2)
        return (0.5 * (y * self.b(z)).sum(1) + torch.log(torch.diagonal(L, dim1=1, dim2=2)).sum(1)).mean()


class SparseEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(30, 6, sparse=True)
        self.a, self.o = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.o(torch.relu(self.a(self.e(x).mean(1)))), y)


class ExpandNoneGrads(nn.Module):
    """A parameter has a gradient in some micro-batches only."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Parameter(torch.randn(1, 6))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.tanh(self.a(x)) + self.d.expand(x.size(0), 6)
        if bool(y.sum() > 1):
            h = h + self.b(h)
        return (self.c(h) ** 2).mean() * 1.5


class GradScaleMeanDetach(nn.Module):
    """A gradient is turned around by detach."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        r = -h + (h + h).detach()
        dom = F.cross_entropy(self.d(r), (y[:, 0] > 0).long())
        z = torch.lerp(h, self.b(h), torch.sigmoid(h))
        z = torch.addcmul(z, h, r, value=0.1).cumsum(1).roll(1, 1)
        z = torch.where(z > 0, z, z * 0.1).clamp(min=-2.0)
        return ((self.c(z) - y) ** 2).mean() + 0.3 * dom


class DetachLoopBptt(Three):
    def __init__(self):
        super().__init__()
        self.g = nn.GRUCell(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 6)
        l = torch.zeros(())
        for t in range(x.size(1)):
            if t % 2 == 0:
                h = h.detach()
            h = self.g(torch.tanh(self.a(x[:, t])), h)
            l = l + ((self.c(h) - y) ** 2).mean()
        return l + self.fin(self.b(h), y)


class StatefulRnn(Three):
    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(1, 6))
        self.g = nn.GRUCell(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.g(torch.tanh(self.a(x)), self.h.expand(x.size(0), 6))
        self.h = h.mean(0, keepdim=True).detach()
        return self.fin(self.c(torch.tanh(self.b(h))), y)


class NestedTupleCross(Three):
    def parts(self, x: Tensor) -> Tuple[Tensor, Tuple[Tensor, List[Tensor]]]:
        return (x * 2, (x.sin(), [x.cos(), x]))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        p = self.parts(self.a(x))
        z = self.b(p[0])
        q = self.b(p[1][0]) + p[1][1][0] + p[1][1][1]
        return ((self.c(z + q) - y) ** 2).mean()


for name, make, inputs in (
    ("ctc", Ctc, lambda n: (randn(n, 20, 6), randint(1, 9, (n, 5)), torch.full((n,), 10, dtype=torch.long), randint(1, 6, (n,)))),
    ("vqvae_ema", VqvaeEma, lambda n: (randn(n, 8),)),
    ("rnnt", Rnnt, lambda n: (randn(n, 6, 5), randint(1, 7, (n, 3)))),
    ("spectral_manual", SpectralManual, lambda n: (randn(n, 8), randn(n, 3))),
    ("siamese_pairwise", SiamesePairwise, lambda n: (randn(n, 2, 8), randint(0, 2, (n,)))),
    ("qat_ste", QatSte, lambda n: (randn(n, 8), randint(0, 3, (n,)))),
    ("fake_quant_ops", FakeQuantOps, lambda n: (randn(n, 8), randint(0, 3, (n,)))),
    ("complex_glu", ComplexGlu, lambda n: (randn(n, 8), randn(n, 8))),
    ("mlm_tied", MlmTied, lambda n: (randint(0, 40, (n, 8)), randint(0, 40, (n, 8)))),
    ("ssm_scan", SsmScan, lambda n: (randn(n, 6, 4), randn(n, 6, 4))),
    ("reinforce", Reinforce, lambda n: (randn(n, 6), randn(n), randint(0, 3, (n,)))),
    ("dqn_target_copy", DqnTargetCopy, lambda n: (randn(n, 6), randint(0, 3, (n,)), randn(n), randn(n, 6))),
    ("arcface", Arcface, lambda n: (randn(n, 8), randint(0, 4, (n,)))),
    ("loss_nograd_branch", LossNogradBranch, lambda n: (randn(n, 6), randn(n, 3))),
    ("linalg", Linalg, lambda n: (randn(n, 4, 4), randn(n, 4))),
    ("sparse_embedding", SparseEmbedding, lambda n: (randint(0, 30, (n, 5)), randn(n, 3))),
    ("expand_none_grads", ExpandNoneGrads, lambda n: (randn(n, 6), torch.ones(n))),
    ("grad_scale_mean_detach", GradScaleMeanDetach, lambda n: (randn(n, 6), randn(n, 6))),
    ("detach_loop_bptt", DetachLoopBptt, lambda n: (randn(n, 6, 6), randn(n, 6))),
    ("stateful_rnn", StatefulRnn, lambda n: (randn(n, 6), randn(n, 6))),
    ("nested_tuple_cross", NestedTupleCross, lambda n: (randn(n, 6), randn(n, 6))),
):
    add(f"lo_{name}", make, inputs, train=True, stateful=True)

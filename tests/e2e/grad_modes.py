"""grad_modes.py: models that switch gradients off in places keep their gradients as stages, under every schedule.

`with torch.no_grad():` and torch.set_grad_enabled, by what people use them for: teachers, codebooks, moving averages of weights, weights
normalised in place, writes into activations. Cuts are in the middle of the regions. Loss, gradients and state have the bits of the unsplit model.
So have those of models in which one tensor reaches later stages as two values.
"""
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

UNSUPPORTED = 4
SCHEDULES = ["gpipe", "1f1b", "zb-h1", "zb-h2"]


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


class Teacher(nn.Module):
    """Distillation: a network whose parameters require gradients and get none, with a cut in its middle."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.t1, self.t2, self.t3 = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.s1, self.s2 = nn.Linear(w, w), nn.Linear(w, w)
        self.shared = nn.Linear(w, w)  # with gradients for the student only

    def forward(self, x: Tensor) -> Tensor:
        h = self.shared(x)
        with torch.no_grad():
            t = torch.tanh(self.t1(h))
            with torch.no_grad():
                t = self.t2(t)
            t = functional.softmax(self.shared(self.t3(t)) / 2.0, -1)
        s = functional.log_softmax(self.s2(torch.relu(self.s1(h))) / 2.0, -1)
        return functional.kl_div(s, t, reduction="batchmean")


class Codebook(nn.Module):
    """Vector quantisation: the codes follow the data by moving averages, which every micro-batch writes and the next one reads."""

    def __init__(self, w: int = 8, codes: int = 5):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.register_buffer("codes", torch.randn(codes, w))
        self.register_buffer("sums", torch.randn(codes, w))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(torch.tanh(self.a(x)))
        with torch.no_grad():
            near = torch.cdist(y, self.codes).argmin(1)
            one = functional.one_hot(near, self.codes.size(0)).to(y.dtype)
            self.counts.mul_(0.9).add_(one.sum(0), alpha=0.1)
            self.sums.mul_(0.9).add_(one.t() @ y, alpha=0.1)
            self.calls += 1
        found = self.codes[near]
        commitment = mse(y - found)
        z = self.c(y + (found - y).detach())
        with torch.no_grad():
            self.codes.copy_(self.sums / self.counts.unsqueeze(1))
        return mse(z) + 0.25 * commitment


class Momentum(nn.Module):
    """Contrast: the keys' network is a moving average of the queries' weights, and the keys fill a queue."""

    def __init__(self, w: int = 6, length: int = 12):
        super().__init__()
        self.q1, self.q2 = nn.Linear(w, w), nn.Linear(w, w)
        self.k1, self.k2 = nn.Linear(w, w), nn.Linear(w, w)
        for parameter in [*self.k1.parameters(), *self.k2.parameters()]:
            parameter.requires_grad_(False)
        self.register_buffer("queue", torch.randn(w, length))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        q = self.q2(torch.relu(self.q1(x)))
        with torch.no_grad():
            self.k1.weight.mul_(0.9).add_(self.q1.weight, alpha=0.1)
            self.k2.weight.copy_(self.k2.weight * 0.9 + self.q2.weight * 0.1)
            k = self.k2(torch.relu(self.k1(x)))
        scores = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1)
        with torch.no_grad():
            places = (torch.arange(k.size(0)) + self.at) % self.queue.size(1)
            self.queue[:, places] = k.t()
            self.at[0] = (int(self.at) + k.size(0)) % self.queue.size(1)
        return functional.cross_entropy(scores, torch.zeros(x.size(0), dtype=torch.long))


class Own(nn.Module):
    """A norm whose statistics are assigned, not written, as in much code of authors."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.register_buffer("mean", torch.zeros(w))
        self.register_buffer("var", torch.ones(w))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        if self.training:
            with torch.no_grad():
                self.mean = 0.9 * self.mean + 0.1 * y.mean(0)
                self.var = 0.9 * self.var + 0.1 * y.var(0, unbiased=False)
        y = (self.b(y) - self.mean) / torch.sqrt(self.var + 1e-5)
        return mse(self.c(torch.tanh(y)))


class Writes(nn.Module):
    """A write without gradients changes the elements of an activation, and the gradient goes on as if it had not been."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        with torch.no_grad():
            y.mul_(0.5)
            y[:, 2:].clamp_(-1.0, 1.0)
            z = y  # handed on: its gradient stays
        w = self.b(z)
        with torch.no_grad():
            parts: List[Tensor] = [w, torch.zeros_like(w)]
            for i in range(2):
                parts.append(w + i)
            w.add_(torch.stack(parts).mean(0))
        return mse(self.c(torch.sin(w)))


class Switches(nn.Module):
    """set_grad_enabled as a statement, gradients on inside of off, loops and branches around and inside."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = self.a(x)
        torch.set_grad_enabled(True)
        z = self.b(y)
        torch.set_grad_enabled(before)
        total = self.c(z)
        for i in range(3):
            with torch.no_grad():
                scale = total.abs().amax() + i
                if bool(scale > 1):
                    scale = scale * total.mean()
                else:
                    scale = scale + functional.linear(total, self.d.weight, bias).sum()
            total = total / (scale + 3.0)
        steps = int(x.size(0) > 1) + 1
        k = 0
        while k < steps:
            with torch.no_grad():
                noise = total * 0.125
            total = torch.sin(total) + noise
            k += 1
        if torch.is_grad_enabled():
            total = self.d(total)
        return mse(total)


class Normalised(nn.Module):
    """A trained weight that is scaled in place before it is used."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        with torch.no_grad():
            self.b.weight.div_(self.b.weight.pow(2).sum(1, keepdim=True).sqrt() + 1e-6)
        return mse(self.c(torch.tanh(self.b(y))))


class Returned(nn.Module):
    """Operators that return their argument itself, with its gradient: some always, some for one sample only."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        t = h.t()
        with torch.no_grad():
            k = t.contiguous()
            s = h.sum_to_size([1, h.size(1)])
            wide, narrow = torch.broadcast_tensors(h, s)
            same = functional.dropout(h.float(), 0.5, False)
            other = h.to(torch.float64)
            weight = self.d.weight.contiguous()
            scale = torch.sigmoid(k.flatten().mean())
        y = functional.linear(torch.sin(h), weight) * k.t() + s * scale
        y = torch.tanh(self.b(y)) + wide * narrow + torch.cos(same) + other.to(torch.float32)
        return mse(self.c(y))


class ReturnedAndWritten(nn.Module):
    """A write into what may be the argument itself."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        g = self.a(x)
        t = g.t()
        with torch.no_grad():
            k = t.contiguous()
            k.mul_(0.5)
        y = self.b(g) + k.t()
        return mse(self.c(torch.tanh(y)))


class Twice(nn.Module):
    """One tensor that stages get as two values; its gradient is a sum of three."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)


class TwiceContiguous(Twice):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        k = h.contiguous()
        z = h + torch.tanh(self.b(h))
        return mse(self.c(z) * k.exp())


class TwiceFlattened(Twice):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        k = torch.flatten(h, 1)
        z = h + torch.tanh(self.b(h))
        return mse(self.c(z) * k.exp())


class TwiceReversed(Twice):
    """The value of the operator is used first."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        k = torch.flatten(h, 1)
        z = k + torch.tanh(self.b(k))
        return mse(self.c(z) * h.exp())


class TwiceFromLaterStage(Twice):
    """The operator is in a stage that got the tensor."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        z = torch.tanh(self.b(h))
        k = torch.flatten(h, 1)
        z = torch.tanh(self.c(z)) * h
        z = z + h.sin()
        return mse(self.d(z) * k.exp())


class TwiceChosen(Twice):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        k = h * 2 if bool(x.sum() > 1e9) else h
        z = h + torch.tanh(self.b(h))
        return mse(self.c(z) * k.exp())


class TwiceListed(Twice):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        parts: List[Tensor] = []
        for _ in range(int(x.abs().sum()) % 2 + 2):
            parts.append(h)
        z = h + torch.tanh(self.b(h))
        return mse(self.c(z) * torch.stack(parts).exp().sum(0))


class TwiceLooped(Twice):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        k = h
        for _ in range(int(x.sum() > 1e9)):
            k = k * 2
        z = h + torch.tanh(self.b(h))
        return mse(self.c(z) * k.exp())


class TwiceCopied(Twice):
    """An operator that copies: its gradient arrives after those of the uses, though stages get both."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x)).t()
        k = h.contiguous()
        z = h.t() + torch.tanh(self.b(h.t()))
        return mse(self.c(z) * k.t().exp())


class Nested(nn.Module):
    """A helper that returns tuples in tuples; and a tuple from outside, whose elements keep their gradients."""

    def __init__(self, w: int = 6):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)

    def nested(self, x: Tensor) -> Tuple[Tuple[Tensor, Tensor], Tuple[Tensor, List[Tensor]]]:
        y = torch.tanh(self.a(x))
        return (y, y.square()), (y * 2, [x, y])

    def forward(self, x: Tensor) -> Tensor:
        h = self.b(x)
        pair = (torch.sin(h), (torch.cos(h), h * 2))
        with torch.no_grad():
            (p, q), (r, parts) = self.nested(h)
            one, (two, three) = pair
        return mse(self.out(one * two) - p - q - r - parts[1] + three)


class Recurrent(nn.Module):
    """Products whose last bits depend on what their factors require, in parts without gradients, too."""

    def __init__(self, w: int = 6):
        super().__init__()
        self.a, self.student, self.out = nn.Linear(w, w), nn.GRU(w, w, batch_first=True), nn.Linear(w, w)
        self.teacher, self.plain = nn.GRU(w, w, batch_first=True), nn.RNN(w, w, batch_first=True)
        self.t1, self.t2 = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        s, _ = self.student(h)  # not contiguous
        with torch.no_grad():
            t = self.t1(s)
            u = self.t2(self.teacher(h)[0])
            v, _ = self.plain(s)
        return mse(self.out(s) - t + torch.sin(h * u) - v)


class Factors(nn.Module):
    """Views of what requires gradients, and a mask that does."""

    def __init__(self, w: int = 8, length: int = 5):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.mask = nn.Parameter(torch.randn(length, length))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        mask = self.mask * 2.0
        with torch.no_grad():
            t = torch.matmul(h.transpose(0, 1), self.c.weight.t())
            q = h.unsqueeze(1)
            u = functional.scaled_dot_product_attention(q, q, q, mask).squeeze(1)
        return mse(self.c(torch.tanh(self.b(h))) - t.transpose(0, 1) - u) + mse(mask)


class Parts(nn.Module):
    """Factors that are parts of a weight: elements of lists, which may be taken in a loop, and what a branch chooses."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.packed, self.banks = nn.Parameter(torch.randn(3 * w, w)), nn.Parameter(torch.randn(2, 4, w))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        turned = h.transpose(0, 1)
        with torch.no_grad():
            q, k, v = self.packed.chunk(3)
            t = functional.linear(turned, k) + torch.matmul(q, turned.transpose(1, 2)).transpose(1, 2)
            parts = self.packed.split([8, 16])
            pair = (parts[0].t(), v)
            for bank in self.banks.unbind(0):
                t = t + torch.matmul(turned, bank.t()).sum(-1, keepdim=True)
            if bool(x.sum() > 1e9):
                factor = v * 2
            else:
                factor = v.t()
            t = t + torch.matmul(turned, factor) + torch.matmul(turned, pair[0])
        return mse(self.c(torch.tanh(self.b(h))) - t.transpose(0, 1)) + mse(self.packed) + mse(self.banks)


class Attended(nn.Module):
    """Attention to another input takes its weights apart."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.attention = nn.MultiheadAttention(w, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            t, _ = self.attention(h, x, x * 0.5)
        return mse(self.c(torch.tanh(self.b(h))) - t) + mse(self.attention.in_proj_weight)


class Reshaped(nn.Module):
    """A reshape is a view, or a copy that requires no gradients."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.kernel = nn.Parameter(torch.randn(w, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        turned = h.transpose(0, 1)
        with torch.no_grad():
            copied = self.c.weight.t().reshape(4, -1).reshape(8, 8)
            changed = self.kernel.transpose(0, 1).reshape(8, 8)
            changed.mul_(0.5)
            viewed = self.kernel.flatten(1)
            narrow = self.kernel[:, :, :2].transpose(1, 2).reshape(8, 4)[:, :2].reshape(16, 1)[:8]
            t = torch.matmul(turned, copied) + torch.matmul(turned, viewed) + torch.matmul(turned, changed)
            t = t + torch.matmul(turned, narrow)
        return mse(self.c(torch.tanh(self.b(h))) - t.transpose(0, 1)) + mse(self.kernel)


class Behind(nn.Module):
    """Views that a part without gradients made are factors behind it: leaves that require gradients, which go nowhere."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.table, self.packed = nn.Parameter(torch.randn(w, w)), nn.Parameter(torch.randn(2 * w, w))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            factor = self.table.t()
            k, v = self.packed.chunk(2)
        y = self.b(h)
        turned = y.transpose(0, 1)
        t = torch.matmul(turned, factor) + functional.linear(turned, k)
        return mse(self.c(torch.tanh(y)) - t.transpose(0, 1) - v[0]) + mse(self.table) + mse(self.packed)


class Lstms(nn.Module):
    """LSTMs without gradients: a frozen one, and one that reads and has what requires gradients."""

    def __init__(self, w: int = 6):
        super().__init__()
        self.teacher, self.other = nn.LSTM(w, w, batch_first=True), nn.LSTM(w, w, num_layers=2, bidirectional=True, batch_first=True)
        self.student, self.out = nn.LSTM(w, w, batch_first=True), nn.Linear(w, w)
        for parameter in self.teacher.parameters():
            parameter.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        s, _ = self.student(x)
        with torch.no_grad():
            t, state = self.teacher(x)
            u, _ = self.other(s)
        return mse(self.out(s) - t) + mse(s * u[:, :, :6] - state[1][0].unsqueeze(1))


class DoubleLstm(nn.Module):
    """Of float64, an LSTM is products with its weights."""

    def __init__(self, w: int = 6):
        super().__init__()
        self.a, self.out = nn.Linear(w, w), nn.Linear(w, w)
        self.teacher = nn.LSTM(w, w, batch_first=True).double()

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            t, _ = self.teacher(h.double())
        return mse(self.out(torch.tanh(h)) - t.float())


class Lists(nn.Module):
    """Operators that write all tensors of a list: activations, parts of one, and moving averages of two weights."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.register_buffer("first", torch.randn(w, w))
        self.register_buffer("second", torch.randn(w, w))

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.a(x), self.b(x)
        both = [y, z]
        with torch.no_grad():
            torch._foreach_mul_(both, 3.0)
            torch._foreach_addcmul_(both, [z, y], [torch.sin(y), z])
            halves = torch._foreach_mul(both, 0.5)
            parts: List[Tensor] = []
            for i in range(4):
                parts.append(y[:, 2 * i:2 * i + 2])
            torch._foreach_add_(parts, 0.25)
            grown = z.split(4, 1)
            grown.append(z)
            t = torch.cat(grown, 1)
        h = torch.tanh(both[0] * both[1] + halves[0] + t[:, 8:])
        means = [self.first, self.second]
        with torch.no_grad():
            torch._foreach_mul_(means, 0.9)
            torch._foreach_add_(means, [self.c.weight, self.d.weight], alpha=0.1)
            mean = means[0] + means[1]
        return mse(self.d(torch.relu(self.c(h))) - h @ mean)


class WeightLists(nn.Module):
    """A list that is state is written. Nothing reads the list of weights afterwards, so LibTorch drops the write into these."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.kept = [torch.zeros(w), torch.ones(w)]

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        with torch.no_grad():
            torch._foreach_mul_([self.b.weight, self.c.weight], 0.9)
            torch._foreach_add_(self.kept, 0.5)
        return mse(self.c(torch.tanh(self.b(y))) - self.kept[1])


class ReadWeightLists(Normalised):
    """Trained weights that a list holds are scaled in place before they are used."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        with torch.no_grad():
            weights = [self.b.weight, self.c.weight]
            torch._foreach_mul_(weights, 0.9)
            largest = weights[0].abs().max()
        return mse(self.c(torch.tanh(self.b(y))) - largest)


class ListFactors(nn.Module):
    """A factor that a list holds requires what the weight does of which it is a view, whatever writes it."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, w)
        self.table = nn.Parameter(torch.randn(w, w))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        with torch.no_grad():
            factors = [self.table.t(), self.b.weight.t()]
            torch._foreach_clamp_max_(factors, 0.5)
            t = torch.matmul(h.transpose(0, 1), factors[0])
        return mse(self.c(torch.tanh(self.b(h))) - t.transpose(0, 1)) + mse(self.table)


class GrownLists(nn.Module):
    """A list of which only a run knows the tensors."""

    def __init__(self, w: int = 4):
        super().__init__()
        self.a, self.b = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        rows: List[Tensor] = []
        for i in range(x.size(0)):
            rows.append(self.a(x[i]))
        with torch.no_grad():
            torch._foreach_mul_(rows, 3.0)
        return mse(self.b(torch.stack(rows)))


class BranchLists(nn.Module):
    def __init__(self, w: int = 4):
        super().__init__()
        self.a, self.b = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        both = [y * 2, y * 3]
        if bool(x.sum() > 0):
            both.append(y * 5)
        with torch.no_grad():
            torch._foreach_mul_(both, 3.0)
        return mse(self.b(torch.stack(both).sum(0)))


class LastRow(nn.Module):
    """A view of an activation, kept for the next micro-batch; it requires what its tensor does, and no gradient reaches it."""

    def __init__(self, w: int = 8):
        super().__init__()
        self.a = nn.Parameter(torch.randn(w, w))
        self.b, self.c = nn.Linear(w, w), nn.Linear(w, w)
        self.register_buffer("last", torch.randn(w))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(x @ self.a + self.last)
        with torch.no_grad():
            self.last = h[-1]
        return mse(self.c(torch.relu(self.b(h))))


class Branches(nn.Module):
    """A mode that depends on data."""

    def __init__(self, w: int = 4):
        super().__init__()
        self.a, self.b = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x: Tensor) -> Tensor:
        torch.set_grad_enabled(bool(x.sum() > 0))
        y = self.a(x)
        torch.set_grad_enabled(True)
        return mse(self.b(y))


class GradModes(e2e.Case):
    def made(self, kind, *inputs):
        torch.manual_seed(0)
        name = kind.__name__
        torch.jit.script(kind()).save(f"{name}.pt")
        torch.save(inputs, f"{name}.inputs.pt")
        return name

    def gradientsOf(self, name, parts=1):
        """What plain PyTorch finds in a step of one argument."""
        torch.set_num_threads(1)
        model = torch.jit.load(f"{name}.pt").train()
        x, = torch.load(f"{name}.inputs.pt")
        with torch.jit.optimized_execution(False):
            for part in x.tensor_split(parts):
                (model(part) * (len(part) / len(x))).backward()
        return {key: parameter.grad for key, parameter in model.named_parameters() if parameter.grad is not None}

    def trains(self, name, *cuts):
        """Every way to cut, compiled and run: three steps of four uneven micro-batches."""
        inputs = ["--inputs", f"{name}.inputs.pt"]
        expected = self.gradientsOf(name)
        for cut in cuts:
            report = self.pipec(0, "pipe-compile", f"{name}.pt", "--train", *cut, *inputs, "-o", f"{name}.pipe", "--force")
            self.assertIn(f"the loss and {len(expected)} gradients have the same bits", report.out + report.err)
            self.pipec(0, "pipe-check", f"{name}.pipe", "--against", f"{name}.pt")
            self.pipec(0, "pipe-run", f"{name}.pipe", "--train", *inputs, "--microbatches", 1, "--emit-grads", "grads.pt", "--force")
            self.sameBits(expected, torch.load("grads.pt"), f"{name}: gradients of one step, and plain PyTorch")
            self.pipec(0, "pipe-run", f"{name}.pipe", "--train", *inputs, "--microbatches", 4, "--emit-grads", "grads.pt", "--force")
            self.sameBits(self.gradientsOf(name, 4), torch.load("grads.pt"), f"{name}: gradients of four micro-batches, and plain PyTorch")
            step = ["--train", *inputs, "--microbatches", 4, "--steps", 3, "--optimizer", "sgd,lr=0.05,momentum=0.9", "--force"]
            self.pipec(0, "pipe-run", f"{name}.pt", *step, "--emit-grads", "expected.grads.pt", "--output", "expected.state.pt")
            for schedule in SCHEDULES:
                self.pipec(0, "pipe-run", f"{name}.pipe", *step, "--schedule", schedule, "--emit-grads", "grads.pt", "--output", "state.pt")
                self.sameBits(torch.load("expected.grads.pt"), torch.load("grads.pt"), f"{name} {cut} {schedule}: gradients")
                state, unsplit = torch.load("state.pt"), torch.load("expected.state.pt")
                self.sameBits({key: unsplit[key] for key in state}, state,  # each in its own order
                              f"{name} {cut} {schedule}: state")

    def testATeacher(self):
        self.trains(self.made(Teacher, torch.randn(10, 8)), ["--at", "t2,s1"], ["--at", "t1,t3,s2"])

    def testCodebooks(self):
        self.trains(self.made(Codebook, torch.randn(10, 8)), ["--stages", 2], ["--at", "c", "--nearest"])

    def testMovingAveragesOfWeights(self):
        self.trains(self.made(Momentum, torch.randn(10, 6)), ["--stages", 2])

    def testStatisticsOfTheirOwn(self):
        self.trains(self.made(Own, torch.randn(10, 8)), ["--at", "b,c", "--nearest"])

    def testWritesIntoActivations(self):
        self.trains(self.made(Writes, torch.randn(10, 8)), ["--at", "b,c"], ["--stages", 2])

    def testModesAsStatements(self):
        self.trains(self.made(Switches, torch.randn(10, 8)), ["--at", "b,c"], ["--at", "b,d", "--nearest"])

    def testWeightsThatAreNormalisedInPlace(self):
        self.trains(self.made(Normalised, torch.randn(10, 8)), ["--at", "b,c", "--nearest"])

    def testArgumentsThatAreReturned(self):
        name = self.made(Returned, torch.randn(5, 8))  # four micro-batches have two samples and one; no test run of the compile has one
        self.trains(name, ["--at", "b,c"], ["--stages", 2], ["--at", "b", "--nearest"])

    def testWritesIntoArgumentsThatAreReturned(self):
        self.trains(self.made(ReturnedAndWritten, torch.randn(5, 8)), ["--at", "c"], ["--stages", 2])

    def testOneTensorAsTwoValues(self):
        for kind in (TwiceContiguous, TwiceFlattened, TwiceReversed, TwiceChosen, TwiceListed, TwiceLooped, TwiceCopied):
            with self.subTest(kind.__name__):
                self.trains(self.made(kind, torch.randn(10, 8)), ["--at", "b,c"])

    def testOneTensorAsTwoValuesOfTwoStages(self):
        self.trains(self.made(TwiceFromLaterStage, torch.randn(10, 8)), ["--at", "b,c,d"])

    def testTuplesInTuples(self):
        self.trains(self.made(Nested, torch.randn(10, 3, 6)), ["--at", "out"], ["--stages", 3])

    def testProductsAfterARecurrentLayer(self):
        self.trains(self.made(Recurrent, torch.randn(10, 3, 6)), ["--stages", 2], ["--stages", 3], ["--stages", 4])

    def testFactorsThatAreViews(self):
        self.trains(self.made(Factors, torch.randn(10, 5, 8)), ["--stages", 2], ["--at", "b,c"])

    def testFactorsThatAreParts(self):
        self.trains(self.made(Parts, torch.randn(10, 5, 8)), ["--stages", 2], ["--stages", 3])

    def testAttentionTakesWeightsApart(self):
        self.trains(self.made(Attended, torch.randn(10, 5, 8)), ["--stages", 2])

    def testFactorsThatAreReshaped(self):
        self.trains(self.made(Reshaped, torch.randn(10, 5, 8)), ["--stages", 2], ["--stages", 3])

    def testFactorsBehindThePart(self):
        self.trains(self.made(Behind, torch.randn(10, 5, 8)), ["--stages", 2], ["--stages", 3])

    def testAnLstm(self):
        self.trains(self.made(Lstms, torch.randn(10, 3, 6)), ["--stages", 2], ["--stages", 3])
        self.trains(self.made(DoubleLstm, torch.randn(10, 3, 6)), ["--stages", 2])

    def testWritesIntoTheTensorsOfLists(self):
        self.trains(self.made(Lists, torch.randn(10, 8)), ["--stages", 2], ["--at", "d", "--nearest"])

    def testWritesIntoTheWeightsOfLists(self):
        self.trains(self.made(WeightLists, torch.randn(10, 8)), ["--stages", 2])

    def testWritesIntoTheWeightsOfAListThatIsRead(self):
        self.trains(self.made(ReadWeightLists, torch.randn(10, 8)), ["--stages", 2])

    def testFactorsOfAWrittenList(self):
        self.trains(self.made(ListFactors, torch.randn(10, 5, 8)), ["--stages", 2])

    def testWritesIntoTheTensorsOfListsOfARun(self):
        for kind in (GrownLists, BranchLists):
            with self.subTest(kind.__name__):
                self.trains(self.made(kind, torch.randn(10, 4)), ["--stages", 2])

    def testViewsThatAreKept(self):
        self.trains(self.made(LastRow, torch.randn(10, 8)), ["--stages", 2], ["--at", "b,c"])

    def testAModeOfARunIsRefused(self):
        name = self.made(Branches, torch.randn(4, 4))
        self.refused(UNSUPPORTED, ["aten::set_grad_enabled at grad_modes.py", "a mode that is only known in a run"], "pipe-compile", f"{name}.pt", "--train",
                     "--at", "b", "--inputs", f"{name}.inputs.pt", "-o", "never.pipe")
        self.pipec(0, "pipe-compile", f"{name}.pt", "--at", "b", "--inputs", f"{name}.inputs.pt", "-o", "inference.pipe")  # has no gradients


if __name__ == "__main__":
    e2e.main()

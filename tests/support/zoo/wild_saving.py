"""Frozen, quantised, pruned, adapted, parametrised: models as their authors save them."""

from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn, randn


def saving(how):
    """A function that saves: (module, example) -> ScriptModule."""

    def frozen(module, example):
        return torch.jit.freeze(torch.jit.script(module.eval()))

    def frozenTrace(module, example):
        return torch.jit.freeze(torch.jit.trace(module.eval(), example))

    def method(module, example):
        return torch.jit.trace_module(module, {"encode": example, "forward": example})

    return locals()[how]


def deep():
    torch.manual_seed(3)
    c = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
    return nn.Sequential(
        c(3, 8), c(8, 8), nn.MaxPool2d(2), c(8, 8), c(8, 8), nn.Flatten(), nn.Linear(8 * 64, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 4)
    )


class TwoWays(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(8, 8), nn.Tanh())])
        self.dec = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(8, 8), nn.Tanh())])

    def encode(self, x):
        return self.enc(x)

    def forward(self, x):
        return self.dec(self.enc(x))


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = TwoWays()
        self.scale = 2.0

    @torch.jit.export
    def generate(self, x: Tensor, steps: int = 3) -> List[Tensor]:
        out: List[Tensor] = []
        for _ in range(steps):
            x = self.inner.dec(self.inner.enc(x))
            out.append(x * self.scale)
        return out

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.enc(x)


class LowRank(nn.Module):
    """parametrize: orthogonal, and a parametrisation of two factors."""

    def __init__(self):
        super().__init__()
        from torch.nn.utils import parametrizations

        self.a = parametrizations.orthogonal(nn.Linear(8, 8))
        self.b = parametrizations.spectral_norm(nn.Linear(8, 8))
        self.c = parametrizations.weight_norm(nn.Linear(8, 8))

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


def pruned():
    from torch.nn.utils import prune

    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    for i in (0, 2):
        prune.l1_unstructured(net[i], "weight", 0.4)
    return net


class Lora(nn.Module):
    """Adapters around frozen layers, merged or not by a flag, dtype kept."""

    def __init__(self, w=8):
        super().__init__()
        self.base = nn.ModuleList([nn.Linear(w, w) for _ in range(4)]).requires_grad_(False)
        self.a = nn.ParameterDict({str(i): nn.Parameter(randn(2, w)) for i in range(4)})
        self.b = nn.ParameterDict({str(i): nn.Parameter(randn(w, 2)) for i in range(4)})

    def forward(self, x):
        for i, layer in enumerate(self.base):
            x = torch.relu(layer(x) + x @ self.a[str(i)].t() @ self.b[str(i)].t() * 0.5)
        return x


def quantised(kind):
    import torch.ao.quantization as q

    if kind == "lstm":

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.e = nn.Embedding(30, 12)
                self.lstm = nn.LSTM(12, 12, 2, batch_first=True)
                self.out = nn.Linear(12, 5)

            def forward(self, ids: Tensor) -> Tensor:
                y, _ = self.lstm(self.e(ids))
                return self.out(y[:, -1])

        return q.quantize_dynamic(Net().eval(), {nn.LSTM, nn.Linear}, dtype=torch.qint8)
    if kind == "gru16":

        class Net16(nn.Module):
            def __init__(self):
                super().__init__()
                self.gru = nn.GRU(8, 8, batch_first=True)
                self.cell = nn.GRUCell(8, 8)
                self.out = nn.Linear(8, 5)

            def forward(self, x: Tensor) -> Tensor:
                y, h = self.gru(x)
                return self.out(self.cell(y[:, 0], h[0]))

        return q.quantize_dynamic(Net16().eval(), {nn.GRU, nn.GRUCell, nn.Linear}, dtype=torch.qint8)
    if kind == "static":

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.c1, self.b1, self.r1 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()
                self.c2 = nn.Conv2d(6, 6, 3, padding=1)
                self.f, self.g = torch.ao.nn.quantized.FloatFunctional(), torch.ao.nn.quantized.FloatFunctional()

            def forward(self, x: Tensor) -> Tensor:
                return self.g.cat([self.f.add_relu(x, self.c2(self.r1(self.b1(self.c1(x))))), x], 1)[:, :6]

        class Net8(nn.Module):
            def __init__(self):
                super().__init__()
                self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
                self.stem = nn.Conv2d(3, 6, 3, padding=1)
                self.blocks = nn.Sequential(Block(), Block(), Block())
                self.fc = nn.Linear(6, 4)

            def forward(self, x: Tensor) -> Tensor:
                x = self.blocks(self.stem(self.quant(x)))
                return self.dequant(self.fc(F.adaptive_avg_pool2d(x, [1, 1]).flatten(1)))

        net = Net8().eval()
        for b in net.blocks:
            q.fuse_modules(b, [["c1", "b1", "r1"]], inplace=True)
        net.qconfig = q.get_default_qconfig("fbgemm")
        net = q.prepare(net)
        net(randn(4, 3, 8, 8))
        return q.convert(net)
    if kind == "qat":
        net = nn.Sequential(q.QuantStub(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3), q.DeQuantStub()).train()
        net.qconfig = q.get_default_qat_qconfig("fbgemm")
        net = q.prepare_qat(net)
        net(randn(8, 8))
        return net.eval()
    raise ValueError(kind)


def fxQuantised():
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    net = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
    ).eval()
    example = (randn(2, 3, 8, 8),)
    net = prepare_fx(net, get_default_qconfig_mapping("fbgemm"), example)
    net(*example)
    return convert_fx(net)

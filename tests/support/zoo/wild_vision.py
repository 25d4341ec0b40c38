"""Models of images, rays and waves as their authors write them."""

from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, rand


class StackedHourglass(nn.Module):
    """Recursion of modules: an hourglass within an hourglass; heatmaps of every stack in a list."""

    def __init__(self, stacks=2, depth=2, w=8):
        super().__init__()
        self.stem = nn.Conv2d(3, w, 3, padding=1)
        self.glasses = nn.ModuleList([Hourglass(depth, w) for _ in range(stacks)])
        self.heads = nn.ModuleList([nn.Conv2d(w, 4, 1) for _ in range(stacks)])
        self.merge = nn.ModuleList([nn.Conv2d(4, w, 1) for _ in range(stacks)])

    def forward(self, x: Tensor) -> List[Tensor]:
        x = self.stem(x)
        out = []
        for glass, head, merge in zip(self.glasses, self.heads, self.merge):
            y = glass(x)
            h = head(y)
            out.append(h)
            x = x + y + merge(h)
        return out


class Hourglass(nn.Module):
    def __init__(self, depth, w):
        super().__init__()
        res = lambda: nn.Sequential(nn.BatchNorm2d(w), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1))
        self.up, self.low1, self.low3 = res(), res(), res()
        self.low2 = Hourglass(depth - 1, w) if depth > 1 else res()

    def forward(self, x: Tensor) -> Tensor:
        low = self.low3(self.low2(self.low1(F.max_pool2d(x, 2))))
        return self.up(x) + F.interpolate(low, size=x.shape[-2:], mode="nearest")


class Yolo(nn.Module):
    """Anchors decoded into boxes at three scales with grids cached in attributes that forward writes."""

    def __init__(self, classes=3):
        super().__init__()
        self.no, self.na = classes + 5, 2
        c = lambda a, b, s: nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU(inplace=True))
        self.b1, self.b2, self.b3 = nn.Sequential(c(3, 8, 2), c(8, 8, 2)), c(8, 16, 2), c(16, 16, 2)
        self.det = nn.ModuleList([nn.Conv2d(w, self.no * self.na, 1) for w in (8, 16, 16)])
        self.register_buffer("anchors", torch.arange(1, 13).float().view(3, 1, 2, 1, 1, 2))
        self.strides = [4.0, 8.0, 16.0]
        self.grid = [torch.empty(0)] * 3
        self.grid: List[Tensor]

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        a = self.b1(x)
        b = self.b2(a)
        features = [a, b, self.b3(b)]
        z: List[Tensor] = []
        raw: List[Tensor] = []
        for i, det in enumerate(self.det):
            y = det(features[i])
            bs, _, ny, nx = y.shape
            y = y.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            if self.grid[i].dim() != 5 or self.grid[i].shape[2:4] != y.shape[2:4]:
                gy, gx = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing="ij")
                self.grid[i] = torch.stack((gx, gy), 2).view((1, 1, ny, nx, 2)).float()
            raw.append(y)
            p = y.sigmoid()
            p[..., 0:2] = (p[..., 0:2] * 2.0 - 0.5 + self.grid[i]) * self.strides[i]
            p[..., 2:4] = (p[..., 2:4] * 2) ** 2 * self.anchors[i]
            z.append(p.view(bs, -1, self.no))
        return torch.cat(z, 1), raw


class YoloPlain(Yolo):
    """The same with grids made anew."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        a = self.b1(x)
        b = self.b2(a)
        features = [a, b, self.b3(b)]
        z: List[Tensor] = []
        for i, det in enumerate(self.det):
            y = det(features[i])
            bs, _, ny, nx = y.shape
            y = y.view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2)
            gy, gx = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing="ij")
            grid = torch.stack((gx, gy), 2).view((1, 1, ny, nx, 2)).float()
            p = y.sigmoid()
            xy, wh, rest = p.split((2, 2, self.no - 4), 4)
            xy = (xy * 2.0 - 0.5 + grid) * self.strides[i]
            wh = (wh * 2) ** 2 * self.anchors[i]
            z.append(torch.cat((xy, wh, rest), 4).view(bs, -1, self.no))
        return torch.cat(z, 1), z


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(True), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(36, 6))
        self.loc[-1].weight.data.mul_(0.1)
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.PReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 49, 5))

    def forward(self, x: Tensor) -> Tensor:
        theta = self.loc(x).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.size()), align_corners=False)
        return self.net(F.grid_sample(x, grid, align_corners=False))


class ConvLstm(nn.Module):
    """Frames one after the other, states of every layer in lists, predictions fed back."""

    def __init__(self, w=6, n=2):
        super().__init__()
        self.cells = nn.ModuleList([nn.Conv2d((1 if i == 0 else w) + w, 4 * w, 3, padding=1) for i in range(n)])
        self.out = nn.Conv2d(w, 1, 1)
        self.w: int = w

    def forward(self, frames: Tensor, future: int = 2) -> Tensor:
        b, t, _, h, wd = frames.shape
        hs = [torch.zeros(b, self.w, h, wd) for _ in range(len(self.cells))]
        cs = [torch.zeros(b, self.w, h, wd) for _ in range(len(self.cells))]
        result: List[Tensor] = []
        x = frames[:, 0]
        for step in range(t + future):
            x = frames[:, step] if step < t else result[-1]
            for i, cell in enumerate(self.cells):
                ii, f, o, g = torch.split(cell(torch.cat([x, hs[i]], 1)), self.w, 1)
                cs[i] = torch.sigmoid(f) * cs[i] + torch.sigmoid(ii) * torch.tanh(g)
                hs[i] = torch.sigmoid(o) * torch.tanh(cs[i])
                x = hs[i]
            result.append(self.out(x))
        return torch.stack(result, 1)


class Nerf(nn.Module):
    """Rays: positional encoding, skip inside the MLP, volume rendering by cumprod."""

    def __init__(self, w=24, n=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(27 if i == 0 else (w + 27 if i == 2 else w), w) for i in range(n)])
        self.sigma, self.rgb = nn.Linear(w, 1), nn.Linear(w, 3)
        self.register_buffer("bands", 2.0 ** torch.arange(4))
        self.skips = [2]

    def encode(self, x: Tensor) -> Tensor:
        y = x[..., None] * self.bands
        return torch.cat([x, torch.sin(y).flatten(-2), torch.cos(y).flatten(-2)], -1)

    def forward(self, origin: Tensor, direction: Tensor, near: float = 0.5, far: float = 2.0) -> Dict[str, Tensor]:
        t = torch.linspace(near, far, 6, device=origin.device)
        points = origin[:, None] + direction[:, None] * t[:, None]
        e = self.encode(points)
        h = e
        for i, layer in enumerate(self.layers):
            if i in self.skips:
                h = torch.cat([h, e], -1)
            h = F.relu(layer(h))
        alpha = 1.0 - torch.exp(-F.relu(self.sigma(h).squeeze(-1)) * (far - near) / 6)
        trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weight = alpha * trans
        return {"rgb": (weight[..., None] * torch.sigmoid(self.rgb(h))).sum(1), "depth": (weight * t).sum(1), "weights": weight}


class Siren(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2 if i == 0 else w, w) for i in range(4)])
        self.last = nn.Linear(w, 1)
        self.omega = 30.0

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sin(self.omega * layer(x))
        return self.last(x)


class FourierOperator(nn.Module):
    """FNO: weights are complex parameters, multiplied in the frequency domain."""

    def __init__(self, w=8, modes: int = 5):
        super().__init__()
        self.lift, self.drop = nn.Linear(2, w), nn.Linear(w, 1)
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(w, w, modes, dtype=torch.cfloat) * 0.1) for _ in range(3)])
        self.local = nn.ModuleList([nn.Conv1d(w, w, 1) for _ in range(3)])
        self.modes = modes

    def forward(self, x: Tensor) -> Tensor:
        grid = torch.linspace(0, 1, x.size(1), device=x.device).reshape(1, -1, 1).repeat(x.size(0), 1, 1)
        x = self.lift(torch.cat([x, grid], -1)).permute(0, 2, 1)
        for weight, local in zip(self.weights, self.local):
            f = torch.fft.rfft(x)
            out = torch.zeros(x.size(0), x.size(1), f.size(-1), device=x.device, dtype=torch.cfloat)
            out[:, :, : self.modes] = torch.einsum("bix,iox->box", f[:, :, : self.modes], weight)
            x = F.gelu(torch.fft.irfft(out, n=x.size(-1)) + local(x))
        return self.drop(x.permute(0, 2, 1))


class Spectrogram(nn.Module):
    """Audio: STFT, mel filters, log, convolution, CTC output of lengths."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", rand(33, 12))
        self.conv = nn.Sequential(nn.Conv1d(12, 16, 3, padding=1), nn.BatchNorm1d(16), nn.Hardtanh(0.0, 20.0, inplace=True))
        self.rnn = nn.GRU(16, 16, bidirectional=True, batch_first=True)
        self.out = nn.Linear(32, 7)

    def forward(self, wave: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        s = torch.stft(wave, 64, 32, 64, self.window, center=True, return_complex=True)
        power = s.real.pow(2) + s.imag.pow(2)
        x = torch.log(torch.matmul(power.transpose(1, 2), self.mel).clamp(min=1e-9))
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        n = lengths // 32 + 1
        x, _ = self.rnn(x)
        return self.out(x).log_softmax(-1), n


class Inverse(nn.Module):
    """Griffin-Lim by iteration: stft and istft."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.net = nn.Sequential(nn.Conv1d(17, 17, 3, padding=1), nn.Softplus())

    def forward(self, magnitude: Tensor) -> Tensor:
        m = self.net(magnitude)
        angle = torch.ones_like(m).to(torch.cfloat)
        for _ in range(3):
            wave = torch.istft(m * angle, 32, 8, window=self.window)
            s = torch.stft(wave, 32, 8, window=self.window, return_complex=True)
            angle = s / (s.abs() + 1e-8)
        return torch.istft(m * angle, 32, 8, window=self.window)

"""Models of graphs, points and sets, of control and of recommendation, as their authors write them."""

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn, randn


def scatter(x: Tensor, index: Tensor, n: int) -> Tensor:
    return torch.zeros([n, x.size(1)], dtype=x.dtype, device=x.device).index_add_(0, index, x)


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin, self.self_ = nn.Linear(a, b, bias=False), nn.Linear(a, b)

    def forward(self, x: Tensor, edges: Tensor, weight: Optional[Tensor] = None) -> Tensor:
        src, dst = edges[0], edges[1]
        messages = self.lin(x)[src]
        if weight is not None:
            messages = messages * weight.unsqueeze(1)
        degree = torch.bincount(dst, minlength=x.size(0)).clamp(min=1).to(x.dtype)
        return self.self_(x) + scatter(messages, dst, x.size(0)) / degree.unsqueeze(1)


class GraphAttention(nn.Module):
    def __init__(self, a, b, heads: int = 2):
        super().__init__()
        self.lin = nn.Linear(a, heads * b, bias=False)
        self.l, self.r = nn.Parameter(randn(1, heads, b)), nn.Parameter(randn(1, heads, b))
        self.heads, self.b = heads, b

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        n = x.size(0)
        h = self.lin(x).view(n, self.heads, self.b)
        score = F.leaky_relu((h * self.l).sum(-1)[edges[0]] + (h * self.r).sum(-1)[edges[1]], 0.2)
        index = edges[1].unsqueeze(1).expand_as(score)
        top = torch.full([n, self.heads], -1e30).scatter_reduce(0, index, score, "amax")
        score = (score - top[edges[1]]).exp()
        score = score / torch.zeros([n, self.heads]).scatter_add_(0, index, score)[edges[1]]
        out = torch.zeros([n, self.heads, self.b]).index_add_(0, edges[1], h[edges[0]] * score.unsqueeze(-1))
        return out.flatten(1)


class GraphNet(nn.Module):
    """Nodes of several graphs in one list; pooled by graph: no batch dimension."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GraphConv(6 if i == 0 else 16, 16) for i in range(3)])
        self.gats = nn.ModuleList([GraphAttention(16, 8) for _ in range(2)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(16) for _ in range(3)])
        self.out = nn.Linear(16, 2)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor, weight: Optional[Tensor] = None) -> Tensor:
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edges, weight)))
        for gat in self.gats:
            x = F.elu(gat(x, edges)) + x
        n = int(graph.max()) + 1
        pooled = scatter(x, graph, n) / torch.bincount(graph, minlength=n).unsqueeze(1)
        return self.out(pooled)


class PointNet(nn.Module):
    """PointNet++ parts: farthest point sampling by a loop, ball query by sort, T-net."""

    def __init__(self):
        super().__init__()
        self.tnet = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, 9)
        self.mlp = nn.Sequential(nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1))
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

    def sample(self, xyz: Tensor, n: int) -> Tensor:
        b, count, _ = xyz.shape
        centroids = torch.zeros(b, n, dtype=torch.long)
        distance = torch.full([b, count], 12345.5)
        farthest = torch.zeros(b, dtype=torch.long)
        rows = torch.arange(b)
        for i in range(n):
            centroids[:, i] = farthest
            centre = xyz[rows, farthest, :].view(b, 1, 3)
            d = ((xyz - centre) ** 2).sum(-1)
            closer = d < distance
            distance[closer] = d[closer]
            farthest = distance.max(-1)[1]
        return centroids

    def forward(self, x: Tensor) -> Tensor:
        t = self.fc(self.tnet(x.transpose(1, 2)).max(2)[0]).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x, t)
        index = self.sample(x, 8)
        centres = torch.gather(x, 1, index.unsqueeze(-1).expand(-1, -1, 3))
        near = torch.cdist(centres, x).sort(-1)[1][:, :, :4]
        b = x.size(0)
        group = x[torch.arange(b).view(b, 1, 1), near]
        group = torch.cat([group - centres.unsqueeze(2), group], -1).permute(0, 3, 1, 2)
        return self.head(self.mlp(group).amax([2, 3]))


class SetTransformer(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.i = nn.Parameter(randn(1, 4, w))
        self.a = nn.ModuleList([nn.MultiheadAttention(w, 2, batch_first=True) for _ in range(4)])
        self.f = nn.ModuleList([nn.Sequential(nn.Linear(w, w), nn.ReLU()) for _ in range(4)])
        self.seed = nn.Parameter(randn(1, 1, w))
        self.out = nn.Linear(w, 2)

    def forward(self, x: Tensor) -> Tensor:
        b = x.size(0)
        h = self.a[0](self.i.repeat(b, 1, 1), x, x, need_weights=False)[0]
        h = h + self.f[0](h)
        x = x + self.a[1](x, h, h)[0]
        x = x + self.f[1](x)
        p, w = self.a[2](self.seed.expand(b, -1, -1), x, x)
        p = p + self.f[2](p)
        p = p + self.a[3](p, p, p)[0]
        return self.out((p + self.f[3](p)).squeeze(1))


class Capsule(nn.Module):
    """Dynamic routing."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU())
        self.primary = nn.Conv2d(8, 16, 3, 2)
        self.w = nn.Parameter(randn(1, 64, 5, 6, 4) * 0.1)
        self.decoder = nn.Sequential(nn.Linear(30, 16), nn.ReLU(inplace=True), nn.Linear(16, 10), nn.Sigmoid())

    def squash(self, x: Tensor, dim: int = -1) -> Tensor:
        n = (x**2).sum(dim, keepdim=True)
        return n / (1 + n) * x / n.sqrt()

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        u = self.squash(self.primary(self.conv(x)).reshape(x.size(0), -1, 4))
        u = (self.w @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(u.shape[:3], device=x.device)
        v = u.sum(1)
        for i in range(3):
            c = torch.softmax(b, 2)
            v = self.squash((c.unsqueeze(-1) * u).sum(1))
            if i < 2:
                b = b + (u.detach() * v.unsqueeze(1)).sum(-1)
        length = v.norm(2, -1)
        mask = F.one_hot(length.argmax(1), 5).to(x.dtype)
        return length, self.decoder((v * mask.unsqueeze(-1)).flatten(1))


class Spline(nn.Module):
    """KAN: B-spline bases of each input, grid in a buffer."""

    def __init__(self, a: int, b: int, grid: int = 5, order: int = 3):
        super().__init__()
        h = 2.0 / grid
        self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * h - 1).expand(a, -1).contiguous())
        self.base = nn.Parameter(randn(b, a) * 0.3)
        self.spline = nn.Parameter(randn(b, a, grid + order) * 0.1)
        self.order: int = order

    def forward(self, x: Tensor) -> Tensor:
        g = self.grid
        t = x.unsqueeze(-1)
        bases = ((t >= g[:, :-1]) & (t < g[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            bases = ((t - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * bases[:, :, :-1]) + (
                (g[:, k + 1 :] - t) / (g[:, k + 1 :] - g[:, 1:(-k)]) * bases[:, :, 1:]
            )
        return F.linear(F.silu(x), self.base) + F.linear(bases.view(x.size(0), -1), self.spline.view(self.spline.size(0), -1))


class Hyper(nn.Module):
    """A network whose weights another network computes from the sample."""

    def __init__(self, w=6):
        super().__init__()
        self.sizes: List[Tuple[int, int]] = [(w, 8), (8, 8), (8, 3)]
        self.code = nn.Linear(4, 16)
        self.make = nn.ModuleList([nn.Linear(16, a * b + b) for a, b in self.sizes])

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        c = torch.tanh(self.code(condition))
        h = x.unsqueeze(1)
        for i, make in enumerate(self.make):
            a, b = self.sizes[i]
            p = make(c)
            h = torch.baddbmm(p[:, a * b :].unsqueeze(1), h, p[:, : a * b].view(-1, a, b))
            if i < len(self.sizes) - 1:
                h = torch.relu(h)
        return h.squeeze(1)


class Policy(nn.Module):
    """Dict of observations, an LSTM state carried by the caller, several heads, masked actions."""

    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(4, 8, 4, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
        self.vector = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Tanh())
        self.lstm = nn.LSTMCell(8 * 25 + 16, 24)
        self.heads = nn.ModuleDict({"move": nn.Linear(24, 5), "shoot": nn.Linear(24, 2), "value": nn.Linear(24, 1)})

    def forward(self, obs: Dict[str, Tensor], state: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Dict[str, Tensor], Tuple[Tensor, Tensor]]:
        x = torch.cat([self.cnn(obs["frame"].float() / 255.0), self.vector(obs["vector"])], 1)
        if state is None:
            zero = torch.zeros(x.size(0), 24, dtype=x.dtype, device=x.device)
            state = (zero, zero)
        h, c = self.lstm(x, state)
        out: Dict[str, Tensor] = {}
        for name, head in self.heads.items():
            y = head(h)
            if name == "move" and "mask" in obs:
                y = y.masked_fill(~obs["mask"], -1e9)
            out[name] = y if name != "value" else y.squeeze(-1)
        return out, (h, c)


class SquashedGaussian(nn.Module):
    """A SAC actor: tanh of a draw and its log probability."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.mu, self.sigma = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x: Tensor, deterministic: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
        h = self.net(x)
        mu, log = self.mu(h), torch.clamp(self.sigma(h), -5, 2)
        if deterministic:
            return torch.tanh(mu), None
        a = mu + torch.exp(log) * torch.randn_like(mu)
        logp = (-0.5 * ((a - mu) / torch.exp(log)) ** 2 - log - 0.9189).sum(-1)
        return torch.tanh(a), logp - (2 * (math.log(2) - a - F.softplus(-2 * a))).sum(-1)


class Dueling(nn.Module):
    """Dueling, distributional Q values with noisy layers whose noise lies in buffers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
        self.w, self.s = nn.Parameter(randn(20, 24) * 0.2), nn.Parameter(torch.full((20, 24), 0.1))
        self.register_buffer("noise", randn(20, 24))
        self.adv, self.val = nn.Linear(20, 3 * 11), nn.Linear(20, 11)
        self.register_buffer("support", torch.linspace(-10, 10, 11))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = self.body(x)
        weight = self.w + self.s * self.noise if self.training else self.w
        h = F.relu(F.linear(h, weight))
        a, v = self.adv(h).view(-1, 3, 11), self.val(h).view(-1, 1, 11)
        q = F.softmax(v + a - a.mean(1, keepdim=True), -1)
        return (q * self.support).sum(-1), q


class WideDeep(nn.Module):
    """Factorisation machine, cross network and a deep part over lists of sparse features."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(40, 8, mode=m) for m in ("sum", "mean", "max")])
        self.first = nn.EmbeddingBag(40, 1, mode="sum")
        self.cross = nn.ParameterList([nn.Parameter(randn(28) * 0.2) for _ in range(3)])
        self.deep = nn.Sequential(nn.Linear(28, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def forward(self, dense: Tensor, sparse: List[Tensor]) -> Tensor:
        e: List[Tensor] = []
        for i, table in enumerate(self.tables):
            e.append(table(sparse[i]))
        s = torch.stack(e, 1)
        fm = 0.5 * (s.sum(1) ** 2 - (s**2).sum(1)).sum(1, keepdim=True)
        x0 = torch.cat(e + [dense], 1)
        x = x0
        for w in self.cross:
            x = x0 * (x @ w).unsqueeze(1) + x
        return torch.sigmoid(self.deep(x) + fm + self.first(sparse[0])).squeeze(1)


class TwoTower(nn.Module):
    """Ragged histories: flat ids with offsets, padded inside; cosine of two towers."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(50, 12)
        self.user = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
        self.item = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))
        self.logit = nn.Parameter(torch.tensor(2.0))

    def forward(self, history: Tensor, lengths: Tensor, item: Tensor) -> Dict[str, Tensor]:
        mask = torch.arange(history.size(1))[None, :] < lengths[:, None]
        h = (self.items(history) * mask.unsqueeze(-1)).sum(1) / lengths.clamp(min=1).unsqueeze(1)
        u = F.normalize(self.user(h), dim=-1)
        v = F.normalize(self.item(self.items(item)), dim=-1)
        return {"score": F.cosine_similarity(u, v), "scaled": (u * v).sum(-1) * self.logit.exp()}

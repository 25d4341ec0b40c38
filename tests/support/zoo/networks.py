"""Networks of our own, in the shapes of known families: long skips, two streams of skips, recurrent layers, attention, embeddings."""
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o)

    def forward(self, x, skip):
        x = self.up(x)
        dy = skip.size(2) - x.size(2)
        dx = skip.size(3) - x.size(3)
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, c=32, classes=4):
        super().__init__()
        self.inc = DoubleConv(3, c)
        self.d1, self.d2 = DoubleConv(c, 2 * c), DoubleConv(2 * c, 4 * c)
        self.d3, self.d4 = DoubleConv(4 * c, 8 * c), DoubleConv(8 * c, 16 * c)
        self.pool = nn.MaxPool2d(2)
        self.u1, self.u2 = Up(16 * c, 8 * c), Up(8 * c, 4 * c)
        self.u3, self.u4 = Up(4 * c, 2 * c), Up(2 * c, c)
        self.out = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.d1(self.pool(x1))
        x3 = self.d2(self.pool(x2))
        x4 = self.d3(self.pool(x3))
        x5 = self.d4(self.pool(x4))
        return self.out(self.u4(self.u3(self.u2(self.u1(x5, x4), x3), x2), x1))



class Cell(nn.Module):
    def __init__(self, cpp, cp, c, reduction):
        super().__init__()
        s = 2 if reduction else 1
        self.pre0 = nn.Sequential(nn.ReLU(inplace=False), nn.Conv2d(cpp, c, 1), nn.BatchNorm2d(c))
        self.pre1 = nn.Sequential(nn.ReLU(inplace=False), nn.Conv2d(cp, c, 1), nn.BatchNorm2d(c))
        self.op1 = nn.Conv2d(c, c, 3, stride=s, padding=1)
        self.op2 = nn.MaxPool2d(3, stride=s, padding=1)
        self.op3 = nn.Conv2d(c, c, 5, stride=s, padding=2, groups=c)
        self.op4 = nn.AvgPool2d(3, stride=s, padding=1)
        self.op5 = nn.Conv2d(c, c, 1)

    def forward(self, states: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tensor]:
        s0, s1 = states
        p0, p1 = self.pre0(s0), self.pre1(s1)
        if p0.size(2) != p1.size(2):
            p0 = F.max_pool2d(p0, 2)
        a = self.op1(p0) + self.op2(p1)
        b = self.op3(p1) + self.op4(p0)
        return s1, torch.cat([a, b, self.op5(a)], 1)


class AmoebaLike(nn.Module):
    def __init__(self, c=32, n=4, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        cells, cpp, cp = [], c, c
        for i in range(n * 3):
            red = i in (n, 2 * n)
            if red:
                c *= 2
            cells.append(Cell(cpp, cp, c, red))
            cpp, cp = cp, 3 * c
        self.cells = nn.ModuleList(cells)
        self.head = nn.Linear(cp, classes)

    def forward(self, x):
        x = self.stem(x)
        st = (x, x)
        for cell in self.cells:
            st = cell(st)
        return self.head(st[1].mean([2, 3]))



class GNMT(nn.Module):
    def __init__(self, vocab=4000, h=256, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, h, padding_idx=0)
        self.bi = nn.LSTM(h, h, bidirectional=True, batch_first=True)
        self.enc = nn.ModuleList([nn.LSTM(2 * h if i == 0 else h, h, batch_first=True) for i in range(layers - 1)])
        self.dec0 = nn.LSTM(h, h, batch_first=True)
        self.attn_q, self.attn_k, self.attn_v = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, 1, bias=False)
        self.dec = nn.ModuleList([nn.LSTM(2 * h, h, batch_first=True) for _ in range(layers - 1)])
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(h, vocab)

    def forward(self, src: Tensor, src_len: Tensor, tgt: Tensor) -> Tensor:
        x = self.embed(src)
        x, _ = self.bi(x)
        for i, l in enumerate(self.enc):
            y, _ = l(self.drop(x))
            x = y if i == 0 else y + x
        mask = torch.arange(src.size(1), device=src.device)[None, :] >= src_len[:, None]
        y, st = self.dec0(self.embed(tgt))
        q, k = self.attn_q(y), self.attn_k(x)
        e = self.attn_v(torch.tanh(q[:, :, None] + k[:, None])).squeeze(-1).masked_fill(mask[:, None], float("-inf"))
        ctx = torch.softmax(e, -1) @ x
        for i, l in enumerate(self.dec):
            z, _ = l(self.drop(torch.cat([y, ctx], 2)))
            y = z if i == 0 else z + y
        return self.out(y)



class NNTransformer(nn.Module):
    def __init__(self, vocab=2000, d=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.register_buffer("pos", torch.randn(1, 64, d) * 0.02)
        self.t = nn.Transformer(d, 4, 3, 3, 256, dropout=0.1, batch_first=True)
        self.out = nn.Linear(d, vocab)
        self.out.weight = self.emb.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        m = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        a = self.emb(src) + self.pos[:, :src.size(1)]
        b = self.emb(tgt) + self.pos[:, :tgt.size(1)]
        return self.out(self.t(a, b, tgt_mask=m))



class DLRM(nn.Module):
    def __init__(self, rows=(20000, 5000, 40000, 100, 3000, 8000), d=64):
        super().__init__()
        self.embs = nn.ModuleList([nn.EmbeddingBag(r, d, mode="sum") for r in rows])
        self.bot = nn.Sequential(nn.Linear(13, 256), nn.ReLU(inplace=True), nn.Linear(256, d), nn.ReLU(inplace=True))
        n = len(rows) + 1
        self.register_buffer("tri", torch.tril_indices(n, n, -1))
        self.top = nn.Sequential(nn.Linear(d + n * (n - 1) // 2, 256), nn.ReLU(inplace=True), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense: Tensor, idx: List[Tensor], off: List[Tensor]) -> Tensor:
        x = self.bot(dense)
        ly = [x]
        for i, e in enumerate(self.embs):
            ly.append(e(idx[i], off[i]))
        t = torch.stack(ly, 1)
        z = torch.bmm(t, t.transpose(1, 2))
        return self.top(torch.cat([x, z[:, self.tri[0], self.tri[1]]], 1)).squeeze(1)



"""Models in which samples affect each other for some data only, or only in large batches; and models that look as if they did."""
from typing import Dict, List

import torch
from torch import nn
from torch.nn import functional as F

from batch_models import Two


class Layers(Two):
    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


# Found by trying a size beside the constant.


class LargeBatches(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        if x.size(0) > 64:
            y = y - y.mean(0)
        return y


class AllButOne(Layers):
    """A constant that is met exactly."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if x.size(0) == 24 else y


class ManyTokens(Layers):
    """Of x: samples, steps, features."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        tokens = y.view(-1, 8).size(0)
        return y / float(max(tokens, 100))


class FirstForty(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y - y[:40].mean() * 0.5 if x.size(0) > 40 else y


class Sixteens(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) * float(1 + x.size(0) // 16)


class Halved(Layers):
    """A quotient that is no whole number, and two conditions of which both must be met."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if float(x.size(0)) / 2.0 > 10.0 and x.size(0) % 2 == 1 else y


class SizeInTensor(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if bool(torch.tensor(x.size(0)) > 20) else y


class OneOfShapes(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if x.shape == [48, 8] else y


class SingleSamples(Layers):
    """The features of a single sample would be a tensor of one dimension."""

    def forward(self, x: torch.Tensor):
        return torch.softmax(self.features(x).squeeze(), 0 if x.size(0) == 1 else 1) * 2


# Found by trying a larger batch.


class Places33(Layers):
    """A table with a row per place in the batch, whose first rows are equal."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.cat([torch.ones(20, 8), torch.zeros(200, 8)]))

    def forward(self, x: torch.Tensor):
        return self.features(x) + self.table[:x.size(0)]


class ShortList(Layers):
    """A list that takes no more than ten samples."""

    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        y = self.features(x)
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            if len(rows) < 10:
                rows.append(y[i])
        return rows


# Found by what the operators do.


class Distance(Layers):
    """A reduction that is not called one."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if float(torch.dist(x, y)) > 1000.0 else y


class Gram(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if bool((x.t() @ y).trace() > 100000.0) else y


class LoopSum(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        total = 0.0
        for i in range(x.size(0)):
            total += float(y[i, 0])
        return y * 2 if total > 10000.0 else y


class FirstOfMany(Layers):
    """The first 100 samples that an expert was chosen for."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        rows = torch.nonzero(y[:, 0] > y[:, 1]).flatten()[:100]
        return torch.zeros_like(y).index_add(0, rows, y[rows])


class ManyRows(Layers):
    """How many were selected decides, not whether there are any."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y * 2 if y[y > 0].numel() > 100000 else y


class BentMean(Layers):
    def forward(self, x: torch.Tensor):
        return torch.relu(self.features(x).mean() + 10.0)


class Pairs(Layers):
    """All with all, of which the diagonal wins for moderate values."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        scores = y @ y.t() * 1000 + torch.eye(x.size(0)) * 1e6
        return scores.softmax(-1) @ y


class PairsOfConditions(Layers):
    def forward(self, x: torch.Tensor):
        far = x[:, :1] > 30
        return (torch.eye(x.size(0)) + (far & far.t()).float()) @ self.features(x)


class WhileLarge(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        while float(y.abs().max()) > 1000.0:
            y = y * 0.5
        return y


class BothConditions(Layers):
    """Equal for all micro-batches of the test runs, and for the whole batch."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y, bool((y > 30).any())


# Found by what the operators do, of names that say so.


class Capacity(Layers):
    """At most 40 samples per expert, in their order."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        chosen = F.one_hot(y[:, :2].argmax(-1), 2)
        places = (chosen.cumsum(0) * chosen).sum(-1)
        return y * (places <= 40).to(y.dtype).unsqueeze(-1)


class Ranks(Layers):
    """The 40 samples with the largest scores."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        rank = y.sum(-1).argsort().argsort()
        return y * (rank < 40).to(y.dtype).unsqueeze(-1)


class LimitedGroups(Layers):
    """Samples sorted by their expert, of which the first gets at most 40."""

    def forward(self, x: torch.Tensor):
        chosen = x[:, :2].argmax(-1)
        counts, order = torch.bincount(chosen, minlength=2), chosen.argsort()
        sorted = x[order]
        split = min(int(counts[0].item()), 40)
        return torch.cat([self.a(sorted[:split]), self.b(sorted[split:])])[order.argsort()]


class Counts(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        count = F.one_hot(y.argmax(-1), 8).sum(0)
        return y * (count < 40).to(y.dtype)


class AnyBranch(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        if bool((x > 50).any()):
            y = y * 2
        return y


class ItemScale(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) / max(50.0, float(x.abs().max().item()))


class ClampedScale(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) / x.abs().amax().clamp(min=50.0)


class RareRows(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) - x[x > 50].sum()


class RareCounts(Layers):
    def forward(self, x: torch.Tensor):
        values, counts = torch.unique(x.long(), return_counts=True)
        return self.features(x) / counts.max().clamp(min=100000)


class UntilAll(Layers):
    """Ends when every sample is done."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for _ in range(3):
            if bool((y.abs() < 1000.0).all()):
                break
            y = y * 0.5
        return y


# Means over the elements that count.


class Tokens(Layers):
    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        return F.cross_entropy(self.features(x).flatten(0, 1), labels.flatten())


class IgnoresZero(Layers):
    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        return F.cross_entropy(self.features(x), labels, ignore_index=0)


class MaskedMean(Layers):
    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        loss = self.features(x).square().mean(-1)
        return (loss * mask).sum() / mask.sum().clamp(min=1)


class SelectedMean(Layers):
    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        return self.features(x).square().mean(-1)[mask > 0].mean()


# Nothing to say.


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Steps(nn.Module):
    """Steps first: the batch is dimension 1."""

    def __init__(self):
        super().__init__()
        self.rnn, self.last = nn.LSTM(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y, _ = self.rnn(x)
        return self.last(y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        scores = (self.q(x) @ self.k(x).transpose(1, 2)).masked_fill(mask.unsqueeze(1) == 0, -1e9)
        y = scores.softmax(-1) @ self.v(x)
        weight = mask.unsqueeze(-1).to(y.dtype)
        return (y * weight).sum(1) / weight.sum(1).clamp(min=1.0)


class Masks(Layers):
    """Experts without a capacity; an expert without samples is left out."""

    def forward(self, x: torch.Tensor):
        chosen = x[:, :2].argmax(-1)
        y = torch.zeros_like(x)
        for i in range(2):
            mask = chosen == i
            if bool(mask.any()):
                y[mask] = self.a(x[mask]) if i == 0 else self.b(x[mask])
        return y


class Places(Layers):
    """The same with the places of an expert's samples."""

    def forward(self, x: torch.Tensor):
        chosen = x[:, :2].argmax(-1)
        y = torch.zeros_like(x)
        for i in range(2):
            rows = torch.nonzero(chosen == i).squeeze(-1)
            y = y.index_add(0, rows, self.a(x[rows]) if i == 0 else self.b(x[rows]))
        return y


class Sorted(Layers):
    """Samples sorted by length and put back."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        order = lengths.argsort(descending=True)
        y = self.features(x[order])
        return y[order.argsort()]


class Grouped(Layers):
    """Samples sorted by their expert; each expert gets its part of them."""

    def forward(self, x: torch.Tensor):
        chosen = x[:, :2].argmax(-1)
        counts, order = torch.bincount(chosen, minlength=2), chosen.argsort()
        sorted = x[order]
        split = int(counts[0].item())
        return torch.cat([self.a(sorted[:split]), self.b(sorted[split:])])[order.argsort()]


class Chosen(Layers):
    """The largest features of each sample."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        values, places = y.topk(3, dim=-1)
        return values.sum(-1), places, y.cumsum(-1), y.max(-1)[0]


class Labels(Layers):
    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        return F.cross_entropy(self.features(x), labels)


class Refuses(Layers):
    def forward(self, x: torch.Tensor):
        if bool(torch.isnan(x).any()):
            raise ValueError("not a number")
        return self.features(x)


class PaddedToLongest(Layers):
    """A mask of lengths, as long as the longest."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        mask = torch.arange(int(lengths.max())).unsqueeze(0) < lengths.unsqueeze(1)
        y = self.features(x)[:, :mask.size(1)]
        return (y * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1)


class TableInDict(Layers):
    def forward(self, d: Dict[str, torch.Tensor]):
        return self.features(d["x"]) + d["table"][d["ids"]]


class PerSample(Layers):
    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        y = self.features(x)
        return [row[row > 0].sum() for row in y]


# Loops with a round per sample. The conditions are met by values that no example has.


class CopiesBefore(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for i in range(1, x.size(0)):
            if float(x[i, 0]) > 30.0:
                y[i] = y[i - 1]
        return y


class AddsNear(Layers):
    """All samples with all."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        out = y.clone()
        for i in range(x.size(0)):
            for j in range(x.size(0)):
                if i != j and bool((x[i] - x[j]).abs().max() < 0.001):
                    out[i] += y[j]
        return out


class HalvesRest(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        i = 0
        while i < x.size(0):
            if float(x[i, 0]) > 30.0:
                y[i:] = y[i:] * 0.5
            i += 1
        return y


class TakesBest(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        best = -1
        for i in range(x.size(0)):
            if float(x[i, 0]) > 100.0:
                best = i
        return y - y[best] if best >= 0 else y


class ReturnsEarly(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for row in x:
            if float(row[0]) > 40.0:
                return y * 0
        return y


class Decays(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        scale = 1.0
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            if float(x[i, 0]) > 40.0:
                scale = scale * 0.5
            rows.append(y[i] * scale)
        return torch.stack(rows)


class ComparesNext(Layers):
    """The value of a round is compared with that of the round before."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        before = x[0]
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            rows.append(y[i] * 2 if bool((x[i] - before).abs().max() > 60.0) else y[i])
            before = x[i]
        return torch.stack(rows)


class ScalesAll(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for i in range(x.size(0)):
            if float(x[i, 0]) > 40.0:
                y = y * 0.5
        return y


class CountsKeys(Layers):
    """What was seen of an earlier sample is in a dict."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        seen: Dict[int, float] = {}
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            key = int(x[i, 0] * 100000.0)
            rows.append(y[i] * 0 if key in seen else y[i])
            seen[key] = 1.0
        return torch.stack(rows)


class OwnRows(Layers):
    """Each round reads and writes its own sample."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        y = self.features(x)
        rows: List[torch.Tensor] = []
        kept: Dict[int, torch.Tensor] = {}
        for i in range(x.size(0)):
            if float(x[i, 0, 0]) > 0.0:
                y[i] = y[i] * 2
            length = int(lengths[i])
            best = -1.0
            for t in range(x.size(1)):
                if t < length and float(x[i, t, 0]) > best:
                    best = float(x[i, t, 0])
            rows.append(self.a(y[i, :length].mean(0)) * best if length > 2 else self.b(y[i, 0]))
            kept[i] = x[i].sum(0) if float(y[i, 0, 0]) > 0.5 else x[i : i + 1].mean([0, 1])
        return torch.stack(rows), torch.stack([kept[i] for i in range(x.size(0))])


class OwnRowsFromSecond(Layers):
    """Ranges that begin later, and a loop that counts by itself."""

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for i in range(1, x.size(0) + 1):
            if float(x[i - 1, 0]) > 0.0:
                y[i - 1] = y[i - 1] * 2
        out = torch.zeros_like(y)
        i = 0
        while i < x.size(0):
            out[i] = y[i] if bool(x[i].sum() > 0) else -y[i]
            i += 1
        return out


# Operators that slide windows over the samples or scale along them. Nothing of it shows below a
# limit.


class PooledSamples(Layers):
    def forward(self, x: torch.Tensor):
        windows = F.max_pool1d(x.t().unsqueeze(0), 3, 1, 1).squeeze(0).t()
        return self.features(x) + F.relu(windows - 60.0)


class ColumnNorms(Layers):
    def forward(self, x: torch.Tensor):
        return torch.renorm(self.features(x).t(), 2, 0, 1000.0).t()


class NormedNeighbours(Layers):
    """The samples where channels are expected."""

    def forward(self, x: torch.Tensor):
        return F.local_response_norm(self.features(x).view(1, -1, 8), 3, alpha=1e-9).view(-1, 8)


class PairsOfEinsum(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return F.relu(torch.einsum("bd,cd->bc", y, x) - 3000.0).amax(-1) + y[:, 0]


class OwnWindows(Layers):
    """Windows, norms and products of each sample."""

    def forward(self, x: torch.Tensor):
        y = F.max_pool1d(self.features(x), 3, 1, 1)
        y = F.local_response_norm(y, 3) + torch.renorm(y, 2, 0, 1.0)
        return F.softmax(torch.einsum("bsd,btd->bst", y, x), -1) @ y + y.diff(dim=1, prepend=y[:, :1])


class KeepsThree(Layers):
    """No more than three samples are let through; what follows is written in place."""

    def forward(self, x: torch.Tensor):
        y, large = self.features(x), 0
        for i in range(x.size(0)):
            if float(x[i, 0]) > 20.0:
                large += 1
                if large > 3:
                    y[i] = 0.0
        return y


class SwapsPairs(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        for i in range(0, x.size(0) - 1, 2):
            if float(x[i, 0]) > 30.0:
                y[i] = y[i + 1]
        return y


class RemembersLast(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        found: Dict[str, torch.Tensor] = {}
        for i in range(x.size(0)):
            if float(x[i, 0]) > 40.0:
                found["last"] = y[i]
        return y + found["last"] if "last" in found else y


class AddsLarge(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            if float(x[i, 0]) > 40.0:
                rows.append(y[i])
        return y + torch.stack(rows).sum(0) if len(rows) > 0 else y


def kept(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Non-maximum suppression: the best box, then the best of those that do not overlap it, and so on."""
    order = scores.argsort(descending=True)
    best: List[torch.Tensor] = []
    while order.numel() > 0:
        first = order[0]
        best.append(first)
        rest = order[1:]
        least = torch.max(boxes[first, :2], boxes[rest, :2])
        sides = (torch.min(boxes[first, 2:], boxes[rest, 2:]) - least).clamp(min=0.0)
        order = rest[sides[:, 0] * sides[:, 1] < 0.1]
    return torch.stack(best)


class Detections(Layers):
    """Boxes of each sample; those that data selects."""

    def forward(self, x: torch.Tensor) -> List[Dict[str, torch.Tensor]]:
        y = self.features(x)
        found: List[Dict[str, torch.Tensor]] = []
        for i in range(x.size(0)):
            corners = y[i].view(2, 4).repeat(4, 1) + torch.linspace(-1.0, 1.0, 8).unsqueeze(1)
            boxes = torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:].abs()], 1)
            scores = boxes.sum(1).sigmoid()
            large = torch.where(scores > 0.05)[0]
            boxes, scores = boxes[large], scores[large]
            if boxes.size(0) > 0:
                rows = kept(boxes, scores)
                boxes, scores = boxes[rows], scores[rows]
            found.append({"boxes": boxes, "scores": scores})
        return found


class Noisy(Layers):
    """In training mode, rrelu draws a number per negative element."""

    def __init__(self):
        super().__init__()
        self.act = nn.RReLU()

    def forward(self, x: torch.Tensor):
        return self.b(self.act(self.a(x)))


# What follows all samples is the largest number of a list, a limit that is given, a place.


class ListMaximum(Layers):
    def forward(self, x: torch.Tensor):
        numbers: List[float] = x[:, 0].tolist()
        return self.features(x) * (0.5 if max(numbers) > 50.0 else 1.0)


class AppendedMaximum(Layers):
    def forward(self, x: torch.Tensor):
        numbers = [float(row[0]) for row in x]
        return self.features(x) * (0.5 if max(numbers) > 50.0 else 1.0)


class ListMember(Layers):
    def forward(self, x: torch.Tensor):
        numbers: List[float] = x[:, 0].tolist()
        return self.features(x) * (0.5 if 50.0 in numbers else 1.0)


class NextOfList(Layers):
    """Rare steps between the entries of two samples."""

    def forward(self, x: torch.Tensor):
        numbers: List[float] = x[:, 0].tolist()
        rates: List[float] = [1.0]
        for before, after in zip(numbers, numbers[1:]):
            rates.append(0.5 if after - before > 50.0 else 1.0)
        return self.features(x) * torch.tensor(rates).unsqueeze(1)


class FilledWithMaximum(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y + torch.full_like(y, float((x.abs().max() - 50.0).relu()))


class MaximumOfRepeated(Layers):
    def forward(self, x: torch.Tensor):
        z = x.repeat_interleave(torch.full((x.size(0),), 2), 0)
        return self.features(x) / (z.abs().max() / 50.0).clamp(min=1.0)


class SeenBefore(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x).masked_fill(torch.isin(x, x[:, :1] + 100.0), 0.0)


class RankBySearch(Layers):
    def forward(self, x: torch.Tensor):
        place = torch.searchsorted(torch.sort(x[:, 0])[0], x[:, 0].contiguous())
        return self.features(x) * (place < 1000000).float().unsqueeze(1)


class RowBefore(Layers):
    def forward(self, x: torch.Tensor):
        before = x[(torch.arange(x.size(0)) - 1).clamp(min=0)]
        return self.features(x) + (x - before - 100.0).relu()


class RowBeforeByPadding(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) + (F.pad(x, [0, 0, 1, -1]) - 100.0).relu()


class EluMean(Layers):
    """Below zero, no function of the parts' means."""

    def forward(self, x: torch.Tensor):
        return F.elu(self.features(x).mean() + 100.0)


class AbsoluteLossOfMean(Layers):
    def forward(self, x: torch.Tensor):
        return F.l1_loss(self.features(x).mean(0), torch.full((8,), -100.0))


class LargestMean(Layers):
    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return torch.stack([y.mean() + 100.0, y[:, 0].mean()]).amax(0)


class LimitGiven(Layers):
    """At most as many of the chosen samples as asked for."""

    def forward(self, x: torch.Tensor, most: int):
        y = self.features(x)
        return y[torch.nonzero(y.amax(-1) > -90.0).flatten()[:most]]


class LimitInBuffer(Layers):
    def __init__(self):
        super().__init__()
        self.register_buffer("most", torch.tensor(100))

    def forward(self, x: torch.Tensor):
        y = self.features(x)
        return y[torch.nonzero(y.amax(-1) > -90.0).flatten()[:int(self.most)]]


class PlacesBelow(Layers):
    def forward(self, x: torch.Tensor):
        return self.features(x) * (torch.arange(x.size(0), device=x.device) < 30).float().unsqueeze(1)


class PlacesInColumns(Layers):
    """Places as a column, compared or added to, and as rows of equal numbers."""

    def forward(self, x: torch.Tensor, way: int):
        n, y = x.size(0), self.features(x)
        if way == 0:
            return y * (torch.arange(n).view(-1, 1) < 30)
        if way == 1:
            return y * (torch.arange(n).unsqueeze(1).expand(-1, 8) < 30)
        if way == 2:
            return y * ((torch.arange(n)[:, None] - 29).clamp(min=0) + 1)
        if way == 3:
            return (y.t() * (torch.arange(n).reshape(1, n) < 30)).t()
        if way == 4:
            return y * torch.where(torch.arange(n).reshape(n, 1).float() + 1 > 30, 2.0, 1.0)
        return y + (torch.arange(n) / 30).to(torch.long).unsqueeze(1)


class OwnColumns(Layers):
    """Columns per sample that no batch changes."""

    def forward(self, x: torch.Tensor):
        n = x.size(0)
        return self.features(x) * torch.ones(n, 8).tanh() + torch.arange(3 * n).view(n, 3).remainder(3).float().amax(1, keepdim=True)


class PlacesInGroups(Layers):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(640.0).view(80, 8))

    def forward(self, x: torch.Tensor):
        return self.features(x) + self.table[torch.arange(x.size(0)) // 16]


class LinearOfMeans(Layers):
    """Sums, layers and casts of means."""

    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        y = self.features(x)
        loss = F.cross_entropy(y, labels)
        pooled = self.a(y.mean(0))
        return 0.5 * loss + torch.stack([y.mean(), loss.float()]).mean().to(x.dtype) / 3.0 + pooled[:4].sum() - pooled.view(2, 4)[1].mean()


class OwnPlaces(Layers):
    """Rows of each sample by its place, copies of it, and rows behind the last."""

    def forward(self, x: torch.Tensor, last: torch.Tensor):
        n = x.size(0)
        y = self.features(x)
        own = y[torch.arange(n), last]
        copies = own[torch.arange(2 * n) // 2].view(n, 2, 8).amax(1)
        return F.pad(own + copies, [0, 0, 0, 2])[:n]


class OwnEnds(Layers):
    """The part of each sample by a list that begins with 0 and has an end per sample."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        y = self.features(x)
        sizes: List[int] = lengths.tolist()
        ends = [0] + sizes
        kept: List[torch.Tensor] = []
        for i, end in enumerate(ends[1:]):
            kept.append(y[i, :end].sum(0) * float(y.size()[1:][0]))
        return torch.stack(kept)


class OwnLists(Layers):
    """A list of numbers with an entry per sample, of which each is used for its sample; lists of sizes."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, most: int):
        y = self.features(x)
        numbers: List[int] = lengths.tolist()
        widths = [y.size(1), y.size(2), most]
        rows: List[torch.Tensor] = []
        for i, n in enumerate(numbers):
            row: List[float] = y[i, :n, 0].tolist()
            rows.append(y[i, :n].sum(0) * max(row))
        return torch.stack(rows)[:, :most] * (2.0 if max(widths) > 100 else 1.0)

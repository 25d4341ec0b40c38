"""Models whose batch sizes alone do not show: lists per sample, tables as long as the batch, reductions, state, caches."""
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn


class Two(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)


class Detector(Two):
    """One dict per sample, and one list of labels."""

    def forward(self, x: torch.Tensor) -> Tuple[List[Dict[str, torch.Tensor]], List[str]]:
        x = torch.relu(self.a(x))
        boxes, labels = self.b(x), torch.jit.annotate(List[str], [])
        found = torch.jit.annotate(List[Dict[str, torch.Tensor]], [])
        for i in range(x.size(0)):
            found.append({"boxes": boxes[i].view(2, 4), "score": x[i].sum()})
            labels.append("dog" if bool(x[i, 0] > 0) else "cat")
        return found, labels


class Ragged(Two):
    """As many boxes as a sample has numbers above 0: tensors of different lengths in a list."""

    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        y = self.b(torch.relu(self.a(x)))
        found = torch.jit.annotate(List[torch.Tensor], [])
        for i in range(y.size(0)):
            found.append(y[i][y[i] > 0])
        return found


class ListsInADict(Two):
    def forward(self, x: torch.Tensor) -> Dict[str, List[torch.Tensor]]:
        y = self.b(torch.relu(self.a(x)))
        found = torch.jit.annotate(Dict[str, List[torch.Tensor]], {})
        for name in ["boxes", "scores"]:
            entries = torch.jit.annotate(List[torch.Tensor], [])
            for i in range(y.size(0)):
                entries.append(y[i] if name == "boxes" else y[i].sum())
            found[name] = entries
        return found


class Prototypes(Two):
    def forward(self, x: torch.Tensor, protos: torch.Tensor):
        return (torch.relu(self.b(self.a(x))) @ protos.t()).softmax(-1)


class PrototypesFirst(Two):
    def forward(self, protos: torch.Tensor, x: torch.Tensor):
        return torch.cdist(torch.relu(self.b(self.a(x))), protos).softmax(-1)


class OneDict(Two):
    """A batch and a table in one argument."""

    def forward(self, batch: Dict[str, torch.Tensor]):
        return (torch.relu(self.b(self.a(batch["x"]))) @ batch["table"].t()).softmax(-1)


class BankAndBias(Two):
    """Two tables beside the samples in one argument, all with as many rows."""

    def forward(self, p: Tuple[torch.Tensor, torch.Tensor, torch.Tensor]):
        return (-torch.cdist(torch.relu(self.a(p[0])), self.b(p[1]))).softmax(1) + p[2]


class ManyParts(Two):
    """An ordinary batch with one table."""

    def forward(self, batch: Dict[str, torch.Tensor]):
        x = self.a(batch["x"]) * batch["m1"] + batch["m2"] * batch["m3"]
        return (torch.relu(self.b(x)) @ batch["bank"].t()).softmax(-1)


class ListWithTable(Two):
    """A list of samples and a table."""

    def forward(self, xs: List[torch.Tensor]):
        return (torch.relu(self.b(self.a(xs[0]))) @ xs[1].t()).softmax(-1)


class OneList(Two):
    """Parts that are cut along different dimensions."""

    def forward(self, xs: List[torch.Tensor]):
        return self.b(torch.relu(self.a(xs[0].t()))) + xs[1] + xs[2].mean()


class Reduces(Two):
    def forward(self, x: torch.Tensor):
        y = self.b(torch.relu(self.a(x)))
        return y, y.sum(), y.mean(0), y.sum(0), x.size(0), (y > 0).sum()


class Contrasts(Two):
    """Numbers that only the whole batch has."""

    def forward(self, x: torch.Tensor):
        y = self.b(torch.relu(self.a(x)))
        logits = y @ y.t()
        loss = nn.functional.cross_entropy(logits, torch.arange(x.size(0)))
        load = y.softmax(-1).mean(0)
        return {"loss": loss, "balance": (load * load).sum(), "largest": y.max(), "logits": logits, "y": y}


class Selects(Two):
    """What is above the mean of each sample: the order of samples, and the order of features."""

    def forward(self, x: torch.Tensor):
        y = self.b(torch.relu(self.a(x)))
        mean = y.mean(1, keepdim=True)
        return y[y > mean], y.t()[y.t() > mean.t()], y


class Greedy(Two):
    """Steps until every sample is done: the longest of the batch decides how many."""

    def forward(self, x: torch.Tensor):
        x = self.b(torch.relu(self.a(x)))
        tokens = torch.jit.annotate(List[torch.Tensor], [])
        rest = (x * 10).abs().sum(1).long() % 7 + 1
        while bool((rest > 0).any()):
            tokens.append(rest.clamp(min=0))
            rest = rest - 1
        return torch.stack(tokens, 1)


class Counts(Two):
    """Calls so far, as a number and in what it computes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor):
        self.calls += 1
        return self.b(torch.relu(self.a(x))) + self.calls, self.calls.clone()


class Trains(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.drop, self.b = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor):
        return self.b(self.drop(self.norm(self.a(x))))


class TrainsOtherwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)

    @torch.jit.export
    def encode(self, x: torch.Tensor):
        return self.drop(self.a(x))


class PassedState(nn.Module):
    """The batch is the first dimension of x and the second of the state."""
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTM(8, 8, batch_first=True), nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
        x, (h, c) = self.first(x, (h, c))
        return self.second(x, (h, c))


class PassedPair(PassedState):
    def forward(self, x: torch.Tensor, state: Tuple[torch.Tensor, torch.Tensor]):
        x, state = self.first(x, state)
        return self.second(x, state)


class ScaledSteps(nn.Module):
    """Steps come first; a scale over all of the input, as in dynamic quantisation, combines samples."""
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(8, 8), nn.GRU(8, 8)

    def forward(self, x: torch.Tensor):
        x, h = self.first(x / x.abs().max())
        return self.second(x)[0], h


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTM(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor):
        return self.b(self.a(x)[0])


class Ranks(Two):
    """Images, or sequences of them."""

    def forward(self, x: torch.Tensor):
        x = self.a(x)
        if x.dim() == 3:
            x = x.mean(1)
        return self.b(torch.relu(x))


class Halves(Two):
    """Whole numbers that add up over 5 = 3 + 2 samples by chance."""

    def forward(self, x: torch.Tensor):
        n = x.size(0)
        return self.b(torch.relu(self.a(x))), n // 2, (n + 1) // 2, n % 2, torch.tensor(n // 3), n * 2


class Largest(Two):
    def forward(self, x: torch.Tensor, n: torch.Tensor):
        return self.b(torch.relu(self.a(x))) * n.unsqueeze(1), n.max()


class MaskedLoss(Two):
    """A mean over the labels that are not ignored: samples have different numbers of them."""

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        logits = self.b(torch.relu(self.a(x)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


class WeightedLoss(Two):
    """A mean that is weighted by the class of each sample."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.linspace(0.1, 4.0, 8))

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return nn.functional.cross_entropy(self.b(torch.relu(self.a(x))), y, self.weights)


class Pairs(Two):
    """Takes even batches only; the second result has pairs along its first dimension."""

    def forward(self, x: torch.Tensor):
        x = self.b(torch.relu(self.a(x)))
        return x, x.view(x.size(0) // 2, 2, 8)[:, :, :4]


class Decoder(nn.Module):
    """One layer of attention with a cache: ids are one token, the mask is one longer than the cache."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def attend(self, ids: torch.Tensor, mask: torch.Tensor, keys: torch.Tensor, values: torch.Tensor):
        x = self.embed(ids)
        keys, values = torch.cat([keys, self.k(x)], 1), torch.cat([values, self.v(x)], 1)
        scores = (self.q(x) @ keys.transpose(1, 2) / 4.0).masked_fill(mask[:, None, :] == 0, -1e9)
        return self.head(scores.softmax(-1) @ values), keys, values

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, keys: torch.Tensor, values: torch.Tensor):
        return self.attend(ids, mask, keys, values)


class TupleDecoder(Decoder):
    def forward(self, ids: torch.Tensor, mask: torch.Tensor, past: Tuple[torch.Tensor, torch.Tensor]):
        logits, keys, values = self.attend(ids, mask, past[0], past[1])
        return {"logits": logits, "past": (keys, values)}


class KeysByValue(Two):
    """A dict that has one key more for some batches."""

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        y = self.b(torch.relu(self.a(x)))
        found = {"y": y}
        if bool(x[0, 0] > 2):
            found["first"] = y * 2
        return found


class Guidance(Two):
    """Two halves of a batch are one another's partner: takes even batches only."""

    def forward(self, x: torch.Tensor):
        first, second = self.b(torch.relu(self.a(x))).chunk(2)
        return torch.cat([first + 3 * (first - second), second - first])


class GroupSpread(Two):
    """The spread over groups of four samples: takes multiples of four."""

    def forward(self, x: torch.Tensor):
        y = torch.relu(self.a(x))
        group = min(4, x.size(0))
        spread = (y.view(group, -1, 8).var(0, unbiased=False) + 1e-8).sqrt().mean(1, keepdim=True).repeat(group, 1)
        return self.b(y + spread)


class Centred(Two):
    def forward(self, x: torch.Tensor):
        y = torch.relu(self.a(x))
        return self.b(y - y.mean(0, keepdim=True))


class Codebook(Two):
    def forward(self, x: torch.Tensor, codebook: torch.Tensor):
        nearest = torch.cdist(self.a(x), codebook).argmin(1)
        return self.b(codebook[nearest]), nearest


class Indices(Two):
    """Whole numbers that add up, or stay the same, in some batches by chance."""

    def forward(self, x: torch.Tensor):
        sums = self.b(torch.relu(self.a(x))).sum(1)
        rounded = (sums * 4).round()
        return sums.argmax(), int(sums.argmin()), torch.unique((sums * 3).round()).numel(), rounded.max() - rounded.min(), (sums > sums.mean()).sum()


class Floats(Two):
    def forward(self, x: torch.Tensor) -> List[float]:
        y = self.b(torch.relu(self.a(x)))
        sums: List[float] = []
        for i in range(x.size(0)):
            sums.append(float(y[i].sum()))
        return sums


class StepsFirst(nn.Module):
    """Sequences as recurrent and attention modules take them by default; the mask has its samples first."""

    def __init__(self, width: int = 16):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 32)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor, padding: torch.Tensor):
        return self.head(self.encoder(x, src_key_padding_mask=padding))


class TableThenIds(Two):
    def forward(self, table: torch.Tensor, ids: torch.Tensor):
        return self.b(torch.relu(self.a(torch.nn.functional.embedding(ids, table))))


class FeaturesOfIds(Two):
    def forward(self, table: torch.Tensor, ids: torch.Tensor):
        return self.b(torch.relu(self.a(table)))[ids]


class TableThenRows(Two):
    def forward(self, table: torch.Tensor, x: torch.Tensor):
        return self.b(torch.relu(self.a(x))) @ table.t()


class Vectors(Two):
    """Entries of 8 features, as many as the layers give: 8 is no batch."""

    def forward(self, xs: List[torch.Tensor]) -> List[torch.Tensor]:
        return [self.b(torch.relu(self.a(x))) for x in xs]


class MeansOfLengths(Two):
    """A list of numbers with an entry per sample, read by index."""

    def forward(self, x: torch.Tensor, lengths: List[int]):
        y = self.b(torch.relu(self.a(x)))
        rows = torch.jit.annotate(List[torch.Tensor], [])
        for i in range(x.size(0)):
            rows.append(y[i, : lengths[i]].mean(0))
        return torch.stack(rows)


class ScalesToSizes(Two):
    """A detector that scales its boxes to the sizes of the pictures, a list of pairs."""

    def forward(self, x: torch.Tensor, sizes: List[Tuple[int, int]]) -> List[Dict[str, torch.Tensor]]:
        y = self.b(torch.relu(self.a(x)))
        found = torch.jit.annotate(List[Dict[str, torch.Tensor]], [])
        for i, (height, width) in enumerate(sizes):
            found.append({"boxes": y[i] * float(height), "scores": y[i, :2] * float(width)})
        return found


class DividesByTemperatures(Two):
    def forward(self, x: torch.Tensor, temperatures: List[float]):
        return self.b(torch.relu(self.a(x))) / torch.tensor(temperatures).unsqueeze(1)


class PoolsToSizes(Two):
    """A list that may be as long as the batch by chance."""

    def forward(self, x: torch.Tensor, sizes: List[int]):
        y = self.b(torch.relu(self.a(x)))
        parts = torch.jit.annotate(List[torch.Tensor], [])
        for size in sizes:
            parts.append(torch.nn.functional.adaptive_avg_pool1d(y, size))
        return torch.cat(parts, 2)


class AnyAbove(Two):
    """A bool that is one for the example, and may differ between micro-batches."""

    def forward(self, x: torch.Tensor):
        return self.b(torch.relu(self.a(x))), bool((x > 5).any())


class StopsEarly(Two):
    """A decoder whose steps end when all samples are done."""

    def forward(self, lengths: torch.Tensor):
        y = self.b(torch.relu(self.a(lengths.float().unsqueeze(1).expand(-1, 8))))
        steps = torch.jit.annotate(List[torch.Tensor], [])
        i = 0
        while bool((lengths > i).any()):
            steps.append(torch.where(lengths > i, y.argmax(1) + i + 1, torch.zeros_like(lengths)))
            i += 1
        return torch.stack(steps, 1)


class LargestOfEach(Two):
    def forward(self, xs: List[torch.Tensor]):
        return torch.stack(xs).max(-1)[0]


class MeanOfEach(Two):
    def forward(self, xs: List[torch.Tensor]):
        return torch.stack([self.b(torch.relu(self.a(x))).mean(0) for x in xs])


class HalvesPictures(Two):
    """Channels do not affect each other: nothing shows that they are no samples."""

    def forward(self, xs: List[torch.Tensor]) -> List[torch.Tensor]:
        return [(x - 0.5) * 2 for x in xs]


class AddsRow(Two):
    def forward(self, x: torch.Tensor, row: torch.Tensor):
        return self.b(torch.relu(self.a(x))) + self.a(row)


class RareFlags(Two):
    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, List[int]]:
        y, flags = self.b(torch.relu(self.a(x))), torch.jit.annotate(List[int], [])
        for row in y:
            flags.append(1 if float(row[0]) > 1000.0 else 0)
        return y, flags


class GrowthOfMean(Two):
    def forward(self, x: torch.Tensor):
        y = self.b(torch.relu(self.a(x)))
        return torch.exp(y.mean(0)), y


class FeaturesFirst(Two):
    def forward(self, x: torch.Tensor, scale: torch.Tensor):
        y = self.b(torch.relu(self.a(x.t())))[:, :6].t() * scale
        return y, y.sum()


class PicturesLast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.b = torch.nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x: torch.Tensor):
        return self.b(torch.relu(self.a(x.permute(3, 2, 0, 1)))).permute(2, 3, 1, 0)


class RowsPerHead(Two):
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return self.b(torch.relu(self.a(x + y.view(x.size(0), -1, x.size(1)).sum(1))))


class PairBias(Two):
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        z = torch.relu(self.a(x))
        return self.b(torch.softmax(z @ z.t() + y, 1) @ z)


class ThreeLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(7, 8)
        self.b = torch.nn.Linear(8, 8)
        self.c = torch.nn.Linear(8, 6)

    def forward(self, x: torch.Tensor):
        return self.c(torch.relu(self.b(self.a(x))))


class Masked(Two):
    """A mask with a row per sample may be left out."""

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        x = torch.relu(self.a(x))
        if mask is not None:
            x = x * mask
        return self.b(x)


class Distances(Two):
    """One number for each pair of samples."""

    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        x = self.b(torch.relu(self.a(x)))
        found = torch.jit.annotate(List[torch.Tensor], [])
        for i in range(x.size(0)):
            for j in range(i + 1, x.size(0)):
                found.append((x[i] - x[j]).norm())
        return found


class Named(Two):
    """Numbers and names of the samples, in lists."""

    def forward(self, x: torch.Tensor, lengths: List[int]) -> Tuple[torch.Tensor, List[str]]:
        x = self.b(torch.relu(self.a(x)))
        names = torch.jit.annotate(List[str], [])
        for i in range(x.size(0)):
            names.append("%d" % lengths[i])
        return x, names

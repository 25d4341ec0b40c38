"""Lists and dicts that branches and loops of the data change, as authors of models write them."""
from enum import Enum
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

LAYERS = 8


class Stack(nn.Module):
    """Layers between which the containers are filled."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(LAYERS)])
        self.first, self.rest = nn.ModuleList(list(self.layers)[:4]), nn.ModuleList(list(self.layers)[4:])


class LeftEarly(nn.Module):
    """A list made in branches of a loop that may be left before it is."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, n: int) -> Tensor:
        h = self.a(x)
        for i in range(n):
            if i > 0:
                if bool(h.sum() > 100.0):
                    break
                kept = [h]
            else:
                kept = [h, x]
            if bool(h.sum() > 0):
                kept.append(x)
            h = torch.stack(kept).sum(0)
        return self.c(torch.relu(self.b(h)))


class DenseFeatures(nn.Module):
    """A DenseNet block: every layer reads all features before it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6 + 3 * i, 3) for i in range(LAYERS)])
        self.last = nn.Linear(6 + 3 * LAYERS, 4)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(torch.relu(layer(torch.cat(features, 1))))
        return self.last(torch.cat(features, 1))


class DenseFeaturesOrNot(nn.Module):
    """The same, where an argument says whether a layer adds what it made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(LAYERS)])

    def forward(self, x: Tensor, keep: bool = True) -> Tensor:
        features = [x]
        for layer in self.layers:
            x = torch.relu(layer(torch.stack(features).sum(0)))
            if keep:
                features.append(x)
        return torch.cat(features, 1)


class HiddenStates(Stack):
    """An encoder that collects hidden states on demand."""

    def forward(self, x: Tensor, output_hidden_states: bool = True) -> Tuple[Tensor, List[Tensor]]:
        hidden: List[Tensor] = []
        for layer in self.layers:
            if output_hidden_states:
                hidden.append(x)
            x = torch.tanh(layer(x))
        if output_hidden_states:
            hidden.append(x)
        return x, hidden


class MaybeHiddenStates(Stack):
    """The list itself is there or not."""

    def forward(self, x: Tensor, output_hidden_states: bool = True) -> Tuple[Tensor, Optional[List[Tensor]]]:
        hidden: Optional[List[Tensor]] = None
        if output_hidden_states:
            hidden = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if hidden is not None:
                hidden.append(x)
        return x, hidden


class HiddenStatesOrNone(Stack):
    """The list is always filled, and handed out on demand."""

    def forward(self, x: Tensor, output_hidden_states: bool = True) -> Tuple[Tensor, Optional[List[Tensor]]]:
        hidden: List[Tensor] = []
        for layer in self.layers:
            if output_hidden_states:
                hidden.append(x)
            x = torch.tanh(layer(x))
        return x, hidden if output_hidden_states else None


class DictOrNone(Stack):
    """The same of a dict, by a return of its own."""

    def forward(self, x: Tensor, output_all: bool = True) -> Tuple[Tensor, Optional[Dict[str, Tensor]]]:
        made: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if output_all:
                made["layer" + str(i)] = x
        if not output_all:
            return x, None
        return x, made


class NamedByNumber(Stack):
    """Entries of a dict whose names are made of numbers."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        made: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i % 2 == 0:
                made["aux%d" % i] = x.sum(1)
            else:
                made[f"layer{i}"] = x.mean(1)
        made["out"] = x
        return made


class Extras(Enum):
    NONE = 0
    ALL = 1


class NoneByEnum(Stack):
    """A result is None by a setting of the model, which is an enum."""

    def __init__(self):
        super().__init__()
        self.extras = Extras.NONE

    def forward(self, x: Tensor) -> Dict[str, Tuple[Tensor, Optional[Tensor]]]:
        made: Dict[str, Tuple[Tensor, Optional[Tensor]]] = {}
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            made["layer%d" % i] = (x, x * 2 if self.extras == Extras.ALL else None)
        return made


class TuplesOfHiddenStates(Stack):
    """Two tuples grow, one in a branch of its own."""

    def forward(self, x: Tensor, attentions: bool = True) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
        hidden: List[Tensor] = []
        weights: List[Tensor] = []
        for layer in self.layers:
            a = torch.softmax(layer(x), 1)
            hidden += [x]
            if attentions:
                weights += [a]
            x = x * a
        return x, hidden, weights


class KeyValueCache(Stack):
    """Keys and values of each layer, taken from a cache where there is one."""

    def forward(self, x: Tensor, cache: Optional[List[Tuple[Tensor, Tensor]]] = None, use_cache: bool = True) -> Tuple[Tensor, List[Tuple[Tensor, Tensor]]]:
        new: List[Tuple[Tensor, Tensor]] = []
        for i, layer in enumerate(self.layers):
            k = layer(x)
            v = torch.tanh(k)
            if cache is not None:
                k = torch.cat([cache[i][0], k], 1)
                v = torch.cat([cache[i][1], v], 1)
            if use_cache:
                new.append((k, v))
            x = x + (k * v).sum(1, keepdim=True)
        return x, new


class CacheByName(Stack):
    """Incremental state as fairseq keeps it: a dict that every layer reads and changes."""

    def forward(self, x: Tensor) -> Tensor:
        state: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = layer(x)
            key = "k" + str(i % 2)
            if key in state:
                x = x + state[key]
            state[key] = torch.tanh(x)
        return x + state["k0"] * state["k1"]


class CacheInBranches(Stack):
    """A dict whose entries are changed in both branches of a test of the data."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        state: Dict[str, Tensor] = {"sum": x, "last": x}
        for layer in self.layers:
            y = layer(x)
            if bool(y.shape[1] > 3) and bool(y.sum() > 0):
                state["sum"] = state["sum"] + y
                state["last"] = y
            else:
                state["sum"] = state["sum"] - y
            x = x + state["last"] * 0.5
        return x, state


class ReportOnDemand(Stack):
    """A dict of results: some entries are there only on demand."""

    def forward(self, x: Tensor, verbose: bool = True) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if verbose:
                out["layer" + str(i)] = x
        out["x"] = x
        return out


class LossesOnDemand(Stack):
    """A dict that two dicts are joined into."""

    def forward(self, x: Tensor, targets: Optional[Tensor] = None) -> Dict[str, Tensor]:
        losses: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if i == 3:
                more = {"mid": x.sum(1)}
                losses.update(more)
        if targets is not None:
            found: Dict[str, Tensor] = {}
            found["error"] = (x - targets).sum(1)
            losses.update(found)
        losses["x"] = x
        return losses


class ListMethods(Stack):
    """insert, extend, pop, reverse, clear, del, assignment, copies and slices in one straight line."""

    def forward(self, x: Tensor) -> Tensor:
        l: List[Tensor] = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            l.insert(0, x)
        m = [x * 2.0, x * 3.0]
        l.extend(m)
        l += [x]
        l.reverse()
        last = l.pop()
        first = l.pop(0)
        del l[1]
        l[0] = first * last
        l[-1] += x
        n = l.copy()
        n.append(first)
        l.clear()
        l.extend(n[1:4])
        return torch.stack(l).sum(0) + torch.stack(n[::2]).sum(0)


class ListMethodsInBranches(Stack):
    """The same in branches of the data."""

    def forward(self, x: Tensor) -> Tensor:
        l: List[Tensor] = [x]
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if bool(x[0, 0] > 0):
                l.insert(0, x)
            else:
                l.extend([x, x * 2])
            if len(l) > 3 and i % 2 == 0:
                l.pop()
                x = x + l[-1]
            if i == 5 and bool(x.sum() > 0):
                l.clear()
                l += [x]
        return torch.stack(l).sum(0)


class DictMethods(Stack):
    """del, pop, update, setdefault, get, clear, items, keys."""

    def forward(self, x: Tensor) -> Tensor:
        d: Dict[str, Tensor] = {}
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            d["n" + str(i)] = x
        del d["n0"]
        y = d.pop("n3")
        z = d.setdefault("new", y * 2)
        d.update({"n1": z, "other": y})
        w = d.get("n1")
        if w is not None:
            y = y + w
        total = torch.zeros_like(x)
        for k, v in d.items():
            total = total + v * len(k)
        if "n3" in d:
            total = total * 2
        return total + y


class SortedNumbers(Stack):
    """Lists of numbers that are sorted, and used as indices."""

    def forward(self, x: Tensor, order: List[int]) -> Tensor:
        order = order.copy()
        for layer in self.first:
            x = layer(x)
        order.append(1)
        order.sort()
        for layer in self.rest:
            x = layer(x)
        return x[:, order]


class Beams(Stack):
    """A loop with as many rounds as there are columns: lists of tensors and of numbers change in it."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        for layer in self.first:
            x = torch.tanh(layer(x))
        beams = [x, x * 0.5]
        scores: List[float] = [0.0, 1.0]
        for step in range(x.size(1)):
            new: List[Tensor] = []
            for beam in beams:
                new.append(beam * x[:, step:step + 1])
            if step > 2:
                beams = new
            else:
                beams = [new[1], new[0]]
            scores.append(float(step))
        y = torch.stack(beams).sum(0)
        for layer in self.rest:
            y = torch.tanh(layer(y))
        return y, y * scores[-1]


class LoopOutputs(Stack):
    """Layers before and behind a recurrence that appends what it gives."""

    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        for layer in self.first:
            x = torch.tanh(layer(x))
        state = torch.zeros_like(x[:, 0])
        for t in range(x.size(1)):
            state = torch.tanh(x[:, t] + state)
            outs.append(state)
        y = x * 1.0
        for layer in self.rest:
            y = torch.tanh(layer(y))
        for t in range(x.size(1)):
            outs[t] = outs[t] + y[:, t]
        z = torch.stack(outs, 1)
        for layer in self.first:
            z = layer(z)
        return z


class NestedLists(Stack):
    """Lists of lists: a row per group of layers."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[List[Tensor]]]:
        rows: List[List[Tensor]] = []
        for i, layer in enumerate(self.layers):
            if i % 3 == 0:
                rows.append([])
            x = torch.tanh(layer(x))
            rows[-1].append(x)
        return x, rows


class ListOfDicts(Stack):
    """An intermediate of every layer as a dict in a list."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Dict[str, Tensor]]]:
        taps: List[Dict[str, Tensor]] = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            taps.append({"x": x, "norm": (x * x).sum(1)})
        return taps[-1]["x"] * taps[0]["norm"].unsqueeze(1), taps


class ListFromBranch(Stack):
    """Each branch gives a list of its own; its elements are used far behind."""

    def forward(self, x: Tensor, flip: bool) -> Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        if flip:
            parts = [x, x * 2, x * 3]
        else:
            parts = [x * 3, x * 2, x]
        for i, layer in enumerate(self.rest):
            x = torch.tanh(layer(x)) + parts[i % 3]
        return x + parts[0]


class DictFromBranch(Stack):
    """The same of a dict."""

    def forward(self, x: Tensor, flip: bool) -> Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        if flip:
            parts = {"a": x, "b": x * 2}
        else:
            parts = {"a": x * 3, "b": x}
        for i, layer in enumerate(self.rest):
            x = torch.tanh(layer(x)) + parts["a"]
            parts["b"] = parts["b"] + x
        return x + parts["b"]


class PyramidLevels(Stack):
    """Two lists, one walked back."""

    def forward(self, x: Tensor, extra: bool = True) -> List[Tensor]:
        levels: List[Tensor] = []
        for layer in self.first:
            x = torch.relu(layer(x))
            levels.append(x)
        out: List[Tensor] = [levels[-1]]
        for i in range(len(self.layers) - 4 - 1):
            out.insert(0, levels[2 - i] + out[0] * 0.5)
        if extra:
            out.append(self.layers[6](out[-1]))
        else:
            out.append(out[-1] * 2)
        y = self.layers[7](out[0])
        out[0] = y
        return out


class SeenTwice(Stack):
    """One list under two names: what one changes the other sees."""

    def forward(self, x: Tensor, swap: bool = False) -> Tensor:
        a: List[Tensor] = [x]
        b = a
        for layer in self.layers:
            x = torch.tanh(layer(x))
            b.append(x)
            if swap:
                a.append(x * 2)
        return torch.stack(a).sum(0) + torch.stack(b).mean(0)


class ChosenList(Stack):
    """Which of two lists is changed is known at run time."""

    def forward(self, x: Tensor, first: bool = True) -> Tensor:
        a: List[Tensor] = [x]
        b: List[Tensor] = [x * 2]
        for layer in self.layers:
            x = torch.tanh(layer(x))
            c = a if first else b
            c.append(x)
        return torch.stack(a).sum(0) - torch.stack(b).sum(0)


class GivenList(Stack):
    """The caller's list, copied and extended."""

    def forward(self, xs: List[Tensor]) -> Tensor:
        mine = list(xs)
        x = xs[0]
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if bool(x.sum() > 0):
                mine.append(x)
        return torch.stack(mine).sum(0)


class GivenCache(Stack):
    """The caller's list, written by every layer."""

    def forward(self, x: Tensor, cache: List[Tensor]) -> Tuple[Tensor, List[Tensor]]:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) + cache[i % 2]
            cache[i % 2] = x
        cache.append(x)
        return x, cache


class GivenDict(Stack):
    """The caller's dict, with unknown keys, copied and extended."""

    def forward(self, x: Tensor, given: Dict[str, Tensor]) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for k, v in given.items():
            out[k] = v * 2
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i == 4:
                out["mid"] = x
        out["x"] = x
        return out


class WhileGrowing(Stack):
    """A list that is as long as the data says, and read by index behind."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        steps: List[Tensor] = [x]
        while len(steps) < 4 and bool(steps[-1].abs().sum() > 1e-3):
            steps.append(steps[-1] * 0.5)
        for layer in self.rest:
            x = torch.tanh(layer(x)) + steps[0]
            steps.append(x)
        return x + steps[-1] + len(steps)


class EarlyExits(Stack):
    """Results of exits, and leaving at one of them."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        exits: List[Tensor] = []
        done = False
        for layer in self.layers:
            if not done:
                x = torch.tanh(layer(x))
                exits.append(x.mean(1))
                if bool(x.abs().max() < 0.05):
                    done = True
        return x, exits


class Counters(Stack):
    """Dicts of numbers whose keys only the data knows: one entry each over the micro-batches."""

    def forward(self, x: Tensor, names: List[str]) -> Tuple[Tensor, Dict[str, int], Dict[str, float], List[int]]:
        counts: Dict[str, int] = {}
        weights: Dict[str, float] = {}
        sizes: List[int] = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
        for name in names:
            if name in counts:
                counts[name] += x.size(0)
            else:
                counts[name] = x.size(0) * 2
            weights[name] = float(x.sum())
            sizes.append(counts[name])
        return x, counts, weights, sizes


class ReturnsTheAbsent(nn.Module):
    def forward(self, x: Tensor, known: Optional[Dict[str, Tensor]] = None) -> Tuple[Tensor, Optional[Dict[str, Tensor]]]:
        return torch.tanh(torch.exp(x)), known


class ReturnsOfTheAbsent(nn.Module):
    def forward(self, x: Tensor, known: Optional[Dict[str, Tensor]] = None) -> Tuple[Tensor, Optional[Tensor]]:
        y = torch.exp(x)
        loss: Optional[Tensor] = None
        if known is not None:
            loss = known["a"]
        return torch.tanh(y), loss


class LateTargets(Stack):
    """Answers to learn from, which inference leaves out: copied, changed in a loop, and checked near the end, as detectors do."""

    def forward(self, x: Tensor, targets: Optional[List[Dict[str, Tensor]]] = None) -> Tensor:
        if targets is not None:
            copies: List[Dict[str, Tensor]] = []
            for target in targets:
                copy: Dict[str, Tensor] = {}
                for k, v in target.items():
                    copy[k] = v
                copies.append(copy)
            targets = copies
        for i in range(x.size(1)):
            target_index = targets[i] if targets is not None else None
            if target_index is not None:
                target_index["boxes"] = target_index["boxes"] * 2
            if targets is not None and target_index is not None:
                targets[i] = target_index
        for layer in self.layers:
            x = torch.tanh(layer(x))
        if targets is not None:
            for target in targets:
                if target["boxes"].dtype != torch.float32:
                    raise TypeError("boxes must be float32")
                x = x + target["boxes"].sum()
        return self.first[0](x)


class MaybeGivenList(Stack):
    """A list to go on with, which the example leaves out."""

    def forward(self, x: Tensor, given: Optional[List[Tensor]] = None) -> Tuple[Tensor, List[Tensor]]:
        kept = given
        if kept is None:
            kept = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            kept.append(x)
        return x, kept


@torch.jit.script
class Total:
    def __init__(self, start: Tensor):
        self.sum, self.seen = start, 0
        self.items: List[Tensor] = []

    def add(self, x: Tensor) -> int:
        self.items.append(x)
        self.sum = self.sum + x
        self.seen += 1
        return self.seen


@torch.jit.script
class Visitor:
    def __init__(self, total: Total, name: str):
        self.total, self.name = total, name
        self.best = torch.jit.annotate(Optional[Tensor], None)

    def visit(self, x: Tensor):
        self.total.add(x)
        best = self.best
        if best is None:
            self.best = x
        else:
            self.best = torch.maximum(best, x)


class SharedObjects(Stack):
    """Objects of TorchScript classes in lists, one of them in two others, and all of them changed."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        shared = Total(x)
        visitors = [Visitor(shared, "a"), Visitor(shared, "b"), Visitor(Total(x), "c")]
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            visitors[i % 3].visit(x)
            if i == 4:
                visitors[2] = visitors[0]
        return shared.sum * visitors[0].total.seen + visitors[2].total.sum, visitors[1].best


class ChosenObject(Stack):
    """To which object something is assigned, the data decides."""

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        a, b = Total(x), Total(x * 2)
        chosen = a
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if bool(x.sum() > 0):
                chosen = b
            seen = chosen.add(x)
            a.sum = a.sum * 0.5
            if seen > 2:
                chosen = a
        return a.sum + b.sum * a.seen, a.items + b.items


class QueueOfObjects(Stack):
    """As many objects as there are columns, taken from a queue and changed in it."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.first:
            x = torch.tanh(layer(x))
        queue: List[Total] = []
        for column in x.unbind(1):
            queue.append(Total(column))
        while len(queue) > 1:
            one = queue.pop(0)
            one.add(torch.tanh(one.sum))
            queue[0].add(one.sum)
            queue[-1].sum = queue[-1].sum * 0.5
        for layer in self.rest:
            x = torch.tanh(layer(x)) + queue[0].sum.unsqueeze(1)
        return x


class ObjectsByName(Stack):
    def forward(self, x: Tensor) -> Tensor:
        totals: Dict[str, Total] = {}
        for i, layer in enumerate(self.layers):
            name = "even" if i % 2 == 0 else "odd"
            if name not in totals:
                totals[name] = Total(x)
            x = torch.tanh(layer(x))
            totals[name].add(x)
        y = x
        for total in totals.values():
            total.seen += 10
            y = y + total.sum
        return y * totals["even"].seen

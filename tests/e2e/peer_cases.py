"""peer_cases.py: what other pipeline libraries test, by meaning, trained: losses, gradients and weights of plain PyTorch.

The suites of PiPPy, torch.distributed.pipelining, torchgpipe and RaNNC compare forwards where a value skips stages or a weight is shared. Here each
of their models is trained, under several schedules, and compared with a loop over micro-batches of the untouched model.
"""
import re
import sys
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

SGD = ["--optimizer", "sgd,lr=0.015625,momentum=0.5"]  # powers of two: exact for small whole numbers
ALL = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "zb-v", "v-half", "looped-bfs"]
DIVISIBLE = {"interleaved-1f1b": 2}  # micro-batches per pass over the ranks


@torch.jit.script
def pipe_split(x: Tensor) -> Tensor:
    return x


class Shared(nn.Module):
    """A module that two stages use."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randint(0, 2, (width, width)).float())

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Everything(nn.Module):
    """PiPPy's local forward-backward test: a parameter in stages 0 and 1, a module in 1 and 2, a skip from 0 to 2, a slice of a buffer, a size that
    is read behind a cut, a sum as loss. All numbers are small and whole, so every sum is exact and every bit is the same in any order."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.parameter = nn.Parameter(torch.randint(0, 2, (width, width)).float())
        self.shared = Shared(width)
        self.head = nn.Linear(width, width)
        self.head.weight = nn.Parameter(torch.randint(0, 2, (width, width)).float())
        self.head.bias = nn.Parameter(torch.randint(0, 2, (width,)).float())
        self.register_buffer("rows", torch.randint(0, 2, (600, width)).float())

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = x @ self.parameter
        skipped = x
        x = pipe_split(torch.relu(x))
        x = x @ self.parameter + self.rows[: x.size(0)]
        x = pipe_split(self.shared(x).remainder(4.0) + x.size(1))
        x = self.shared(x).remainder(4.0) + skipped
        x = pipe_split(x.remainder(4.0))
        return functional.mse_loss(self.head(x), target, reduction="sum")


class Constant(nn.Module):
    """torch.distributed.pipelining's ExampleCode: a copy of a buffer, without a gradient, goes over the cuts beside what has one."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(width, width) / 4) for _ in range(2)])
        self.register_buffer("added", torch.randn(width))
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = torch.relu(x @ self.weights[0])
        constant = self.added.clone()
        x = pipe_split(self.first(x))
        x = pipe_split(torch.relu(x + constant))
        x = pipe_split(x @ self.weights[1])
        return functional.mse_loss(torch.relu(self.second(x) + constant), target)


class Aliases(nn.Module):
    """One parameter and one module, each under two names, in two stages."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.a = nn.Parameter(torch.randn(width, width) / 4)
        self.b = self.a
        self.one = nn.Linear(width, width)
        self.two = self.one

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = pipe_split(torch.tanh(self.one(x @ self.a)))
        return functional.mse_loss(self.two(x @ self.b), target)


class Arguments(nn.Module):
    """An argument with a default value, read in the last stage, and one that nothing reads."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, target: Tensor, unused: Optional[Tensor] = None, factor: float = 0.5) -> Tensor:
        x = pipe_split(torch.relu(self.layers[0](x)))
        x = pipe_split(torch.relu(self.layers[1](x)))
        return functional.mse_loss(self.layers[2](x) * factor, target)


class SeveralResults(nn.Module):
    """Operators with several results in the way back to the weights, a view as result of a stage, a weight read twice."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / 4)
        self.wide = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, width)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        a, b, c = self.wide(x).chunk(3, dim=1)
        values, _ = torch.max(torch.stack([a, b]), dim=0)
        x = pipe_split((values @ self.weight * torch.sigmoid(c)).view(-1))
        x = pipe_split(torch.tanh(x.view(-1, 8) @ self.weight @ self.weight))
        return functional.mse_loss(self.last(x), target)


class Forks(nn.Module):
    """RaNNC's models: an input that two branches share, a join, an embedding, functions, the loss as result."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.words = nn.Embedding(11, width)
        self.left, self.right, self.join = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(2 * width, 5)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.words(ids)
        left = pipe_split(torch.relu(self.left(x)))
        right = torch.tanh(self.right(x))
        x = pipe_split(torch.cat([left, right], -1).mean(1))
        return functional.cross_entropy(self.join(x), target)


class Skips(nn.Module):
    """torchgpipe's layouts of skips: inside a stage, to the next, far, two from one place, one that is not there."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        kept: Dict[str, Tensor] = {}
        absent: Optional[Tensor] = None
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i == 0:
                kept["far"], kept["twice"] = x * 2, x.sin()
            if i == 2:
                kept["near"] = x
            if i == 3:
                x = x + kept["near"]
            if i == 4:
                x = x + kept["twice"]
                if absent is not None:
                    x = x + absent
        x = x * kept["far"] + kept["twice"]
        return functional.mse_loss(x, target)


class Pairs(nn.Module):
    """torchgpipe's AmoebaNet: cells that pass a pair on."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(width, width) for _ in range(6))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        pair = (x, x)
        for cell in self.cells:
            pair = (torch.tanh(cell(pair[0]) + pair[1]), pair[0])
        return functional.mse_loss(pair[0] - pair[1], target)


class Dropouts(nn.Module):
    """What a recompute draws again must be what the forward drew: the gradient of x is the mask."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, width))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        masked = functional.dropout(x * self.weight, 0.5, True)
        for layer in self.layers:
            masked = masked + 0.0 * layer(masked)
        return masked.sum()


class Wide(nn.Module):
    """128 values cross every cut."""

    def __init__(self, count: int = 128):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(4, 4) / 2) for _ in range(3)])
        self.count = count

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        values: List[Tensor] = []
        for i in range(self.count):
            values.append(torch.tanh(x * (i + 1) @ self.weights[0]))
        y = pipe_split(x @ self.weights[1])
        for value in values:
            y = y + value * value
        y = pipe_split(y @ self.weights[2])
        for value in values:
            y = y + value
        return functional.mse_loss(y, target)


class ThirtyTwo(nn.Module):
    """torchgpipe: the gradient norm of 32 micro-batches."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return (pipe_split(x + self.weight * 1) * 1).sum()


class WritesIntoALeaf(nn.Module):
    """An in-place write into a parameter that is trained: PyTorch refuses it in a training."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.weight.add_(1)
        return pipe_split(x @ self.weight).sum()


def whole(*shape):
    return torch.randint(0, 3, shape).float()


def inPython(path, batch, parts, steps, isSum):
    """Losses of every step, gradients of the last one, and the state after it."""
    torch.set_num_threads(1)
    model = torch.jit.load(path).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.015625, momentum=0.5)
    pieces = list(zip(*(torch.tensor_split(tensor, parts) for tensor in batch)))
    losses = []
    with torch.jit.optimized_execution(False):
        for _ in range(steps):
            optimizer.zero_grad()
            total = 0.0
            for piece in pieces:
                scale = torch.tensor(1.0 if isSum else len(piece[0]) / len(batch[0]))
                loss = model(*piece)
                loss.backward(scale)
                total += (loss.detach() * scale).item()
            losses.append(total)
            gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
            optimizer.step()
    return losses, gradients, model.state_dict()


class PeerCases(e2e.Case):
    def save(self, make, batch):
        torch.manual_seed(3)
        torch.jit.script(make()).save("m.pt")
        torch.save(batch, "batch.pt")

    def trainsAs(self, make, batch, parts, cut=(), schedules=ALL, isSum=False, exact=True, steps=2, options=()):
        """Every schedule gives what plain PyTorch gives; with `exact` in every bit, otherwise (tied weights of fractions) within 1e-5."""
        self.save(make, batch)
        losses, gradients, state = inPython("m.pt", batch, parts, steps, isSum)
        for recompute in ("never", "always"):
            self.pipec(0, "pipe-compile", "m.pt", "--train", *cut, "--inputs", "batch.pt", "--cost", "analytic", "--recompute", recompute, "--schedule", "1f1b",
                       "-o", "m.pipe", "--force", *options)
            stages = len(e2e.plan("m.pipe")["stages"])
            for schedule in schedules:
                if schedule in ("interleaved-1f1b", "zb-v", "v-half", "looped-bfs") and stages % 2:
                    continue
                if schedule == "interleaved-1f1b" and parts % (stages // 2):
                    continue
                what = f"{make.__name__}, {stages} stages, {schedule}, recompute {recompute}"
                done = self.pipec(0, "pipe-run", "m.pipe", "--train", "--inputs", "batch.pt", "--microbatches", parts, "--schedule", schedule, "--steps", steps,
                                  *SGD, *(["--loss-reduction", "sum"] if isSum else []), "--emit-grads", "grads.pt", "--output", "state.pt", "--force", "--json")
                found = [float(loss) for loss in re.findall(r'"loss": ?([-+.e0-9]+)', done.out)][:steps]
                for a, b in zip(losses, found):
                    self.assertLessEqual(abs(a - b), 1e-6 * abs(a), what)
                self.assertEqual(len(found), steps, done.out)
                for expected, file in ((gradients, "grads.pt"), (state, "state.pt")):
                    self.near(expected, torch.load(file), exact, what)

    def near(self, expected, actual, exact, what):
        self.assertGreaterEqual(set(actual), set(expected), what)
        for name, value in expected.items():
            if exact:
                self.assertTrue(torch.equal(value, actual[name]), f"{what}: {name}\n{value}\n{actual[name]}")
            else:
                self.assertLessEqual((value.double() - actual[name].double()).norm(), 1e-5 * value.double().norm() + 1e-9, f"{what}: {name}")

    def testEverythingAtOnce(self):
        """503 samples in 5 micro-batches of unequal size, at 4 stages; the shared weights once on one stage and once on both."""
        batch = (whole(503, 8), whole(503, 8))
        for tied in ("transmit", "replicate"):
            self.trainsAs(Everything, batch, 5, isSum=True, steps=1, options=["--tied", tied])

    def testTwoToFiveStages(self):
        batch = (torch.randn(10, 8), torch.randn(10, 8))
        self.trainsAs(Constant, batch, 4)
        for stages in (2, 3, 5):
            self.trainsAs(Constant, batch, 3, cut=["--split", "auto", "--stages", stages], schedules=["1f1b", "zb-h1"])

    # Within a tolerance are only the two models with a weight in several stages whose values are fractions: each stage sums the gradients of its own
    # uses over all micro-batches, then the stages' sums are added, where autograd adds use after use. From the second step on the difference is in all
    # weights. Everything's weights are small whole numbers, whose sums are exact in any order.
    def testNamesOfOneWeight(self):
        for tied in ("transmit", "replicate"):
            self.trainsAs(Aliases, (torch.randn(9, 8), torch.randn(9, 8)), 4, exact=False, options=["--tied", tied])

    def testArguments(self):
        self.trainsAs(Arguments, (torch.randn(9, 8), torch.randn(9, 8), torch.randn(9, 2)), 3)
        self.trainsAs(Arguments, (torch.randn(9, 8), torch.randn(9, 8)), 3, schedules=["1f1b", "zb-h1"])

    def testOperatorsWithSeveralResults(self):
        self.trainsAs(SeveralResults, (torch.randn(9, 8), torch.randn(9, 8)), 4, exact=False)

    def testForks(self):
        self.trainsAs(Forks, (torch.randint(0, 11, (9, 6)), torch.randint(0, 5, (9,))), 4)

    def testSkips(self):
        batch = (torch.randn(7, 8), torch.randn(7, 8))
        for cuts in ("layers.3", "layers.1,layers.3", "layers.2,layers.3", "layers.1,layers.2,layers.3"):
            self.trainsAs(Skips, batch, 4, cut=["--at", cuts], schedules=["gpipe", "1f1b", "zb-h1", "v-half"])

    def testPairs(self):
        for stages in (2, 3, 6):
            self.trainsAs(Pairs, (torch.randn(7, 8), torch.randn(7, 8)), 4, cut=["--stages", stages], schedules=["gpipe", "1f1b", "zb-h1", "zb-v"])

    def testManyValues(self):
        self.trainsAs(Wide, (torch.randn(5, 4), torch.randn(5, 4)), 2, schedules=["gpipe", "1f1b", "zb-h1"])
        plan = e2e.plan("m.pipe")
        for cut in range(len(plan["stages"]) - 1):
            crossing = [channel for channel in plan["channels"] if channel["kind"] == "activation" and channel["from"]["stage"] <= cut
                        and any(to["stage"] > cut for to in channel["to"])]
            self.assertGreater(len(crossing), 128, cut)

    def testDropout(self):
        """With a recompute and without: the gradient of the weight is the sum of the masked x."""
        torch.manual_seed(5)
        x = torch.rand(6, 8) + 1
        self.save(Dropouts, (x,))
        found = []
        for recompute in ("never", "always"):
            self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "--recompute", recompute, "--schedule",
                       "1f1b", "-o", f"{recompute}.pipe", "--force")
            for schedule in ("gpipe", "zb-h1"):
                self.pipec(0, "pipe-run", f"{recompute}.pipe", "--train", "--inputs", "batch.pt", "--microbatches", 6, "--schedule", schedule,
                           "--loss-reduction", "sum", "--emit-grads", "grads.pt", "--force")
                gradient = torch.load("grads.pt")["weight"][0]
                found.append(gradient)
                for j in range(8):  # of every sample either twice its value or nothing
                    sums = [sum(2 * x[k, j].item() for k in range(6) if mask >> k & 1) for mask in range(64)]
                    self.assertLess(min(abs(gradient[j].item() - each) for each in sums), 1e-4)
        for other in found[1:]:
            self.sameBits(found[0], other)

    def testThirtyTwoMicroBatches(self):
        self.trainsAs(ThirtyTwo, (torch.ones(32, 1),), 32, schedules=["gpipe", "1f1b", "zb-h1"], isSum=True)
        self.assertEqual(torch.load("grads.pt")["weight"].norm().item(), 32.0)

    def testTablesOfTwoRanks(self):
        """PyTorch's schedules of its own tests: a V of four stages, an uneven layout of five, backwards in another order, weights' gradients apart."""
        batch = (torch.randn(9, 8), torch.randn(9, 8))
        self.save(Pairs, batch)
        losses, gradients, state = inPython("m.pt", batch, 2, 2, False)
        tables = {
            "v": (4, ["0F0,0F1,,,,,3F0,3B0,3F1,3B1,,,,,0B0,0B1", ",1F0,1F1,2F0,2F1,,,,2B0,2B1,1B0,1B1"]),
            "uneven": (5, ["0F0,0F1,1F0,1F1,,4F0,4F1,4B0,4B1,,,1B0,1B1,0B0,0B1", ",,,2F0,2F1,3F0,3F1,,,3B0,3B1,2B0,2B1"]),
            "reordered": (2, ["0F0,0F1,,,0B1,0B0", ",1F0,1F1,1B1,1B0"]),
            "weights": (2, ["0F0,0F1,,0I0,0W0,0I1,0W1", ",1F0,1I0,1F1,1W0,1I1,1W1"]),
        }
        for name, (stages, rows) in tables.items():
            with open("table.csv", "w", encoding="utf-8") as file:
                file.write("\n".join(rows) + "\n")
            self.pipec(0, "pipe-compile", "m.pt", "--train", "--inputs", "batch.pt", "--cost", "analytic", "--recompute", "never", "--schedule", "table.csv", "-o",
                       "m.pipe", "--force")
            self.assertEqual(len(e2e.plan("m.pipe")["stages"]), stages)
            self.pipec(0, "pipe-run", "m.pipe", "--train", "--inputs", "batch.pt", "--steps", 2, *SGD, "--emit-grads", "grads.pt", "--output", "state.pt", "--force")
            self.near(gradients, torch.load("grads.pt"), True, name)
            self.near(state, torch.load("state.pt"), True, name)

    def testAWriteIntoATrainedWeight(self):
        """PyTorch refuses it, and so does the compile, with PyTorch's sentence."""
        self.save(WritesIntoALeaf, (torch.randn(4, 8),))
        with self.assertRaisesRegex(RuntimeError, "leaf Variable that requires grad"):
            torch.jit.load("m.pt")(torch.randn(4, 8))
        done = e2e.run("pipe-compile", "m.pt", "--train", "--inputs", "batch.pt", "-o", "m.pipe")
        self.assertNotIn(done.code, (0, 70), done.err)
        self.assertIn("leaf Variable that requires grad", done.err)


if __name__ == "__main__":
    sys.exit(e2e.main())

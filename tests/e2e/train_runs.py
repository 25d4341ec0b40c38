"""train_runs.py: pipe-run --train of an artifact and of a model: what it computes, what it takes, what it refuses, how it fails."""
import json
import math
import re
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE, UNREADABLE, NOT_FINITE = 2, 3, 11
SGD = ["--optimizer", "sgd,lr=0.1,momentum=0.9"]


def inPython(path, inputs, parts, steps, make, clip=None, rates=None):
    """The training that pipe-run promises to equal, in plain PyTorch: the weights and buffers after it."""
    torch.set_num_threads(1)
    model = torch.jit.load(path).train()
    optimizer = make(model.parameters())
    with torch.jit.optimized_execution(False):
        for step in range(steps):
            optimizer.zero_grad()
            if rates:
                optimizer.param_groups[0]["lr"] = rates(step)
            pieces = [torch.tensor_split(tensor, parts) for tensor in inputs]
            for k in range(parts):
                arguments = [piece[k] for piece in pieces]
                model(*arguments).backward(torch.tensor(arguments[0].shape[0] / inputs[0].shape[0]))
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    return model.state_dict()


OPTIMIZERS = {
    "sgd,lr=0.1": lambda p: torch.optim.SGD(p, 0.1),
    "sgd,lr=0.1,momentum=0.9,weight-decay=0.01,nesterov=1": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam,lr=0.01,weight_decay=0.1": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1),
    "adam,lr=0.01,amsgrad=1,beta1=0.8": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True, betas=(0.8, 0.999)),
    "adamw,lr=0.01": lambda p: torch.optim.AdamW(p, 0.01),
    "rmsprop,lr=0.01,momentum=0.5": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5),
    "rmsprop,lr=0.01,centered=1,weight_decay=0.1": lambda p: torch.optim.RMSprop(p, 0.01, centered=True, weight_decay=0.1),
    "adagrad,lr=0.01,lr_decay=0.1": lambda p: torch.optim.Adagrad(p, 0.01, lr_decay=0.1),
}


class OfDtype(nn.Module):
    """Weights of one dtype, real or complex."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(6, 16, dtype=dtype) / 3), nn.Parameter(torch.randn(16, 6, dtype=dtype) / 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.matmul(x.to(self.a.dtype), self.a)
        return torch.matmul(h, self.b).abs().float().square().mean()


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.norm(self.a(x)))).square().mean()


class Explodes(nn.Module):
    """A loss that is not finite for some samples."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + 1
        return torch.log(self.b(torch.tanh(self.a(x))).abs() * x.abs().sum()).mean()


class Breaks(nn.Module):
    """A sample of zeros: a finite loss, and a gradient of the first layer that is not a number. A sample with a number above 9: an infinite loss."""

    def __init__(self, tied: bool = False):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6, bias=False), nn.Linear(6, 6), nn.Linear(6, 6)
        if tied:
            self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        y = torch.tanh(self.b(h * h.square().sum(1, keepdim=True).sqrt()))
        return (self.c(y) / (x.amax(1, keepdim=True) < 9).float()).square().mean()


class Wide(nn.Module):
    """Sums that two threads share, each over its half of a tensor, in every layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
            x = x / (0.1 + x.square().mean())
        return x.square().mean()


class Expanded(nn.Module):
    """A parameter whose rows are one row of memory."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.randn(1, 4).expand(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)) @ self.scale).square().mean()


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.a(x))
        z = self.b(torch.tanh(y))
        if bool((x > 100).any()):
            raise ValueError("over a hundred")
        return (z * z).mean()


class Prints(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        print("half way", y.size(0))
        return self.b(torch.tanh(y * 2)).pow(2).mean()


class ThreeNames(nn.Module):
    """A weight in two stages, the second of which reads it by two names."""

    def __init__(self):
        super().__init__()
        self.a, self.mid, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        y = self.mid(torch.tanh(self.a(x)))
        return (self.c(torch.tanh(self.b(y))) ** 2).mean()


class WeightAsBuffer(nn.Module):
    """The buffer stands before the parameter that it is."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("ref", self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.b(torch.tanh(self.a(x))))
        return self.c(h @ self.ref).pow(2).mean() + 0.1 * self.ref.pow(2).sum()


class OneNorm(nn.Module):
    """One batch norm under two names, in one stage."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.again = self.norm

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        return (self.b(self.again(torch.tanh(self.norm(y)))) ** 2).mean()


class Counter(nn.Module):
    """State in a list, which the next micro-batch reads."""

    steps: List[int]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.steps = [0]

    def forward(self, x: Tensor) -> Tensor:
        self.steps[0] += 1
        return (self.b(torch.tanh(self.a(x)) * (1.0 / self.steps[0])) ** 2).mean()


class InPlace(nn.Module):
    """Writes into its argument and into what it receives."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x.sub_(0.5).mul_(2.0)
        y = self.a(x)
        y.relu_()
        return (self.b(y) ** 2).mean()


class Keeps(nn.Module):
    """State that is None at first."""

    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.last = None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x))
        last = self.last
        if last is not None:
            y = y + last.mean()
        self.last = y.detach()
        return (self.b(y) ** 2).mean()


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.loss = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 8)

    def forward(self, x: Tensor, scale: float = 1.0):
        y = torch.tanh(self.a(x)) * scale
        return self.b(self.loss(y)), y


class Criterion(nn.Module):
    """A loss with a weight of its own, a module inside, and an argument of the model's name."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.inner = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, output: Tensor, hidden: Tensor, target: Tensor, scale: float = 0.5) -> Tensor:
        return self.inner(output * self.weight, target) + scale * hidden.square().mean()


class OwnLoss(nn.Module):
    """Has a method and a submodule with the names that a joined loss gets."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b, self.loss = nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3), nn.CrossEntropyLoss()

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.drop(torch.tanh(self.a(x))))

    @torch.jit.export
    def forward_with_loss(self, x: Tensor, target: Tensor) -> Tensor:
        return self.loss(self.forward(x), target)


class Masked(nn.Module):
    """A loss over the words that count: the mean over a batch is not the mean of means."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Embedding(8, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.b(torch.tanh(self.a(ids))).flatten(0, 1), target.flatten(), ignore_index=0)


class Flags(nn.Module):
    """Changes what is trained, in forward."""

    def __init__(self, first: bool, then: bool):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 1)
        self.first, self.then, self.runs = first, then, 0
        self.b.weight.requires_grad_(self.first)

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        if self.runs > 1:
            self.b.weight.requires_grad_(self.then)
        return (self.b(torch.tanh(self.a(x))) ** 2).mean()


class Toggles(nn.Module):
    """A part that is no part of the generator's loss, whose gradient a look keeps."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTM(6, 6), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        self.b.weight.requires_grad_(False)
        h = self.a(x)[0]
        h.retain_grad()
        made = self.b(h).mean()
        self.b.weight.requires_grad_(True)
        return self.b(h.detach()).mean() - made


class SummedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x))) ** 2).sum()


class InDict(nn.Module):
    """Reads its samples from a dict."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Dict[str, Tensor], target: Tensor) -> Tensor:
        return (self.b(torch.tanh(self.a(x["v"]))).mean() - target.mean()).square()


class AllFlags(nn.Module):
    """Test runs do not show that each flag belongs to a sample."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 4)

    def forward(self, x: Tensor, flag: Tensor, y: Tensor) -> Tensor:
        h = self.a(x)
        if bool((flag > 0).all()):
            h = h + 1
        return (h - y).pow(2).mean()


class Bystanders(nn.Module):
    """A state file has the parameters and buffers that the loss does not depend on: another result or an unused value reads them, or the method reads none of them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.beside, self.dead, self.unread = (nn.Linear(6, 6) for _ in range(5))
        self.register_buffer("scale", torch.full((6,), 0.5))
        self.register_buffer("forgotten", torch.ones(6))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y = self.b(torch.tanh(self.a(x)))
        z = self.dead(x) * self.scale
        return (y ** 2).mean(), self.beside(y)


class ForkedUse(nn.Module):
    """One of three uses of a value is in a forked call, between the other two."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(16, 16) for _ in range(4))

    def branch(self, x: Tensor) -> Tensor:
        return torch.tanh(self.b(x))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        w = self.d(h)
        future = torch.jit.fork(self.branch, h)
        z = self.c(h)
        return (torch.jit.wait(future) * z * w).pow(2).mean()


class SparseBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("edges", torch.eye(6).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.sparse.mm(self.edges, torch.tanh(self.a(x)).t()).t()).pow(2).mean()


class WritesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return self.b(torch.tanh(self.a(x))).pow(2).mean()


class TrainRuns(e2e.Case):
    def saved(self, make, *batch, stages=2, options=()):
        torch.manual_seed(0)
        torch.jit.script(make()).save("m.pt")
        torch.save(batch, "batch.pt")
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", stages, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o",
                   "m.pipe", "--force", *options)
        return ["--train", "--inputs", "batch.pt"]

    def trained(self, model, *arguments):
        self.pipec(0, "pipe-run", model, *arguments, "--output", "state.pt", "--emit-grads", "grads.pt", "--force")
        return torch.load("state.pt"), torch.load("grads.pt")

    def family(self, name, stages=4, *options):
        model, batch = training_models.save(name)
        self.pipec(0, "pipe-compile", model, "--train", "--stages", stages, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "-o", f"{name}.pipe",
                   "--force", *options)
        return model, f"{name}.pipe", batch

    def testEqualsPython(self):
        model, pipe, batch = self.family("resnet")
        inputs = torch.load(batch)
        for text, make in OPTIMIZERS.items():
            for parts, clip in ((3, None), (1, 0.3)):
                expected = inPython(model, inputs, parts, 10, make, clip)
                run = ["--train", "--inputs", batch, "--microbatches", parts, "--steps", 10, "--optimizer", text, *(["--clip-norm", clip] if clip else [])]
                for what in (model, pipe):
                    state, _ = self.trained(what, *run)
                    self.sameBits(dict(expected), {name: state[name] for name in expected}, f"{text} of {what}, {parts} micro-batches")

    def testIntraOpThreads(self):
        """As many on every rank as the unsplit model has: the bits of sums depend on them."""
        run = [*self.saved(Wide, torch.randn(512, 256), stages=4, options=["--at", "layers.1,layers.2,layers.3"]), "--microbatches", 2, "--steps", 2, *SGD]
        alone, expected = (self.trained("m.pt", *run, "--threads", threads) for threads in (1, 2))
        for layer in range(4):
            self.assertFalse(torch.equal(alone[1][f"layers.{layer}.weight"], expected[1][f"layers.{layer}.weight"]), layer)
        for schedule in ("1f1b", "zb-v"):
            for threads, of in ((1, alone), (2, expected)):
                self.sameBits(of, self.trained("m.pipe", *run, "--threads", threads, "--schedule", schedule), f"{schedule}, {threads} threads")

    def testFlagsOfWeightsInForward(self):
        """Unsplit, flags may change within a forward, not from one to the next."""
        torch.save((torch.randn(9, 6),), "batch.pt")
        run = ["--train", "--inputs", "batch.pt", "--microbatches", 3, "--steps", 2, "--optimizer", "sgd,lr=0.1"]
        for before in (True, False):
            torch.jit.script(Flags(before, not before)).save("flags.pt")
            self.refused(USAGE, [f"micro-batch 1: parameter b.weight: expected requires_grad {str(before).lower()} after the forward, as before it, got",
                                 "--freeze NAME"], "pipe-run", "flags.pt", *run)
        torch.jit.script(Toggles()).save("toggles.pt")
        expected = inPython("toggles.pt", torch.load("batch.pt"), 3, 2, OPTIMIZERS["sgd,lr=0.1"])
        done = self.pipec(0, "pipe-run", "toggles.pt", *run, "--output", "state.pt", "--force")
        self.sameBits(dict(expected), torch.load("state.pt"))
        self.assertNotIn("_flat_weights", done.err)  # a list of parameters, which the file has

    def testStateWithoutAFormInFiles(self):
        """Said before the first step: the last one would be lost."""
        run = self.saved(SparseBuffer, torch.randn(8, 6))
        for what in ("m.pt", "m.pipe"):
            self.pipec(0, "pipe-run", what, *run, "--optimizer", "sgd")
            for option in (["--output", "no.pt"], ["--checkpoint", "no"]):
                self.refused(USAGE, [f"{option[0]}: expected dense parameters and buffers, which a file can hold, got edges, a sparse one",
                                     "make it in forward"], "pipe-run", what, *run, "--optimizer", "sgd", *option)
                self.assertFalse(Path(option[1]).exists())

    def testEqualsPythonForOtherDtypes(self):
        """Factors of optimizers are not rounded to the dtype of the weights; complex numbers are pairs of real ones where torch.optim takes them so."""
        for dtype in (torch.bfloat16, torch.float16, torch.complex64):
            torch.manual_seed(0)
            torch.jit.script(OfDtype(dtype)).save("dtype.pt")
            inputs = (torch.randn(8, 6),)
            torch.save(inputs, "dtype.batch.pt")
            self.pipec(0, "pipe-compile", "dtype.pt", "--train", "--stages", 2, "--inputs", "dtype.batch.pt", "--cost", "analytic", "-o", "dtype.pipe", "--force")
            for text, make in OPTIMIZERS.items():
                if dtype == torch.float16 and not text.startswith("sgd"):
                    continue  # eps is 0 in float16: 0 / 0, in Python, too
                expected = inPython("dtype.pt", inputs, 1, 6, make)
                for what in ("dtype.pt", "dtype.pipe"):
                    state, _ = self.trained(what, "--train", "--inputs", "dtype.batch.pt", "--microbatches", 1, "--steps", 6, "--optimizer", text)
                    self.sameBits(dict(expected), state, f"{text} of {what}, {dtype}")

    def testLearningRates(self):
        model, pipe, batch = self.family("mlp")
        inputs = torch.load(batch)
        cosine = [(s + 1) / 3 if s < 2 else 0.1 + 0.9 * (1 + math.cos(math.pi * (s - 2) / 4)) / 2 for s in range(6)]
        step = [0.5 ** (s // 2) for s in range(6)]
        for text, factors in (("cosine,warmup=2,floor=0.1", cosine), ("step,every=2,gamma=0.5", step)):
            expected = inPython(model, inputs, 2, 6, OPTIMIZERS["sgd,lr=0.1"], rates=lambda s: 0.1 * factors[s])
            for what in (model, pipe):
                done = self.pipec(0, "pipe-run", what, "--train", "--inputs", batch, "--microbatches", 2, "--steps", 6, "--optimizer", "sgd,lr=0.1",
                                  "--lr-schedule", text, "--output", "state.pt", "--force", "--json")
                rates = [json.loads(line)["lr"] for line in done.out.splitlines()[:6]]
                self.assertTrue(all(abs(a - 0.1 * b) < 1e-12 for a, b in zip(rates, factors)), (text, rates))
                state = torch.load("state.pt")
                self.sameBits(dict(expected), {name: state[name] for name in expected}, f"{text} of {what}")

    def testFrozenParameters(self):
        model, pipe, batch = self.family("gpt", 4, "--tied", "replicate")
        before = torch.jit.load(model).state_dict()
        frozen = ["--freeze", "words.*,layers.1.*"]
        states = []
        for what in (model, pipe):
            state, gradients = self.trained(what, "--train", "--inputs", batch, "--microbatches", 2, "--steps", 2, *SGD, *frozen)
            self.assertFalse([name for name in gradients if name.startswith(("words.", "head.", "layers.1."))])
            self.sameBits(before["layers.1.wide.weight"], state["layers.1.wide.weight"])
            self.sameBits(before["head.weight"], state["head.weight"])
            self.assertFalse(torch.equal(before["layers.0.wide.weight"], state["layers.0.wide.weight"]))
            states.append((state, gradients))
        self.sameBits(states[0][1], states[1][1], "gradients")
        self.refused(USAGE, ["--freeze: expected names of parameters, got wrods", "the first parameter is words.weight"], "pipe-run", pipe, "--train",
                     "--inputs", batch, "--freeze", "wrods")
        self.refused(USAGE, ['--freeze: expected something on both sides of each comma, got "words.*,"', "help: pass words.*"], "pipe-run", pipe, "--train",
                     "--inputs", batch, "--freeze", "words.*,")
        module = torch.jit.load(model)
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        module.save("without.pt")
        self.refused(USAGE, ["--optimizer: expected a parameter to train", "requires_grad"], "pipe-run", "without.pt", "--train", "--inputs", batch, *SGD)
        for what in (model, pipe):
            self.refused(USAGE, "--freeze: expected a parameter that is left to train, got all", "pipe-run", what, "--train", "--inputs", batch, *SGD,
                         "--freeze", "*")

    def testGroups(self):
        """Parameters with settings of their own: PyTorch's parameter groups."""
        model, pipe, batch = self.family("resnet")
        inputs = torch.load(batch)
        names = [name for name, _ in torch.jit.load(model).named_parameters()]
        biases, firsts = [name for name in names if name.endswith(".bias")], [name for name in names if name.startswith(names[0].split(".")[0])]
        self.assertTrue(set(firsts) - set(biases) and set(firsts) & set(biases) and len(set(biases) | set(firsts)) < len(names))
        halves = [0.5 ** (s // 2) for s in range(4)]
        for text, make, own in (("sgd,lr=0.1,momentum=0.9,weight_decay=0.1", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
                                ("adamw,lr=0.01,weight_decay=0.1", torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
                                ("rmsprop,lr=0.01,weight_decay=0.1", torch.optim.RMSprop, {"lr": 0.01, "weight_decay": 0.1})):
            def grouped(parameters):
                by = dict(zip(names, parameters))
                groups = [{"params": [by[name] for name in biases], "weight_decay": 0.0},
                          {"params": [by[name] for name in firsts if name not in biases], "lr": own["lr"] * 3},
                          {"params": [by[name] for name in names if name not in biases and name not in firsts]}]
                optimizer = make(groups, **own)
                starts = [group["lr"] for group in optimizer.param_groups]

                def rate(step):
                    for group, start in zip(optimizer.param_groups, starts):
                        group["lr"] = start * halves[step]
                optimizer.rate = rate
                return optimizer

            def make_with_rates(parameters):
                optimizer, taken = grouped(parameters), [0]
                plain = optimizer.step

                def step():
                    optimizer.rate(taken[0])
                    taken[0] += 1
                    plain()
                optimizer.step = step
                return optimizer
            expected = inPython(model, inputs, 3, 4, make_with_rates)
            run = ["--train", "--inputs", batch, "--microbatches", 3, "--steps", 4, "--optimizer", text, "--group", "*.bias,weight_decay=0",
                   "--group", f"{names[0].split('.')[0]}*,lr={own['lr'] * 3!r}", "--lr-schedule", "step,every=2,gamma=0.5"]
            for what in (model, pipe):
                state, _ = self.trained(what, *run)
                self.sameBits(dict(expected), {name: state[name] for name in expected}, f"{text} of {what}")
        train = ("pipe-run", pipe, "--train", "--inputs", batch)
        self.refused(USAGE, ["--group: expected --optimizer with it, got none"], *train, "--group", "*.bias,lr=0")
        self.refused(USAGE, ["--group: expected names of parameters, got nothing*", f"the first parameter is {names[0]}"], *train, *SGD, "--group", "nothing*,lr=0")
        self.refused(USAGE, ["--group: expected names of parameters, got an empty name"], *train, *SGD, "--group", ",lr=0")
        self.refused(USAGE, ["--group: expected a parameter of its own for *.bias, got none", "the first group that matches"], *train, *SGD,
                     "--group", "*,lr=0", "--group", "*.bias,lr=1")
        self.refused(USAGE, ["--group: expected settings of sgd: lr, momentum", 'got "beta1=0"'], *train, *SGD, "--group", "*.bias,beta1=0")
        self.refused(USAGE, ["--group: expected settings of sgd: lr, momentum", 'got ""'], *train, *SGD, "--group", "*.bias")
        self.refused(USAGE, ["--group: lr: expected at least 0, got -1"], *train, *SGD, "--group", "*.bias,lr=-1")

    def testTiesStayOne(self):
        """Weights of several stages stay near the unsplit model's, and have the same bits on every run."""
        for name in ("gpt", "translator"):
            for mode in ("transmit", "replicate"):
                model, pipe, batch = self.family(name, 4, "--tied", mode)
                run = ["--train", "--inputs", batch, "--microbatches", 4, "--steps", 5, *SGD]
                expected, grads = self.trained(model, *run)
                for schedule in ("gpipe", "zb-v"):
                    state, found = self.trained(pipe, *run, "--schedule", schedule)
                    for key in state:
                        self.assertLess((state[key].double() - expected[key].double()).norm(), 1e-4 * (1 + expected[key].double().norm()), key)
                    self.assertEqual(set(found), set(grads))
                self.sameBits(self.trained(pipe, *run)[0], self.trained(pipe, *run)[0])

    def testStateFilesHaveWhatTheLossDoesNotUse(self):
        """All parameters and buffers of the model; with the model's values where no gradient came."""
        run = [*self.saved(Bystanders, torch.randn(8, 6), options=["--loss-output", "0"]), "--microbatches", 2, "--steps", 2, "--optimizer", "adamw,lr=0.1,weight_decay=0.1"]
        before = torch.jit.load("m.pt").state_dict()
        trained = {"a.weight", "a.bias", "b.weight", "b.bias"}
        expected = self.trained("m.pt", *run, "--loss-output", "0", "--checkpoint", "of-model")
        found = self.trained("m.pipe", *run, "--checkpoint", "of-stages")
        self.sameBits(expected, found)
        self.assertEqual((set(found[0]), set(found[1])), (set(before), trained))
        for name, value in before.items():
            self.assertEqual(torch.equal(found[0][name], value), name not in trained, name)
        # Merged into the author's file, or linked to one model, from the state file and from the checkpoints of both.
        for command in (["--into", "m.pt", "--state", "state.pt"], ["--into", "m.pt", "--checkpoint", "of-model"], ["m.pipe", "--checkpoint", "of-model"],
                        ["m.pipe", "--checkpoint", "of-stages"]):
            self.pipec(0, "pipe-merge", *command, "-o", "merged.pt", "--force")
            self.sameBits(dict(sorted(found[0].items())), dict(sorted(torch.jit.load("merged.pt").state_dict().items())), command)

    def testExpectedState(self):
        """--expect compares the parameters and buffers after the last step, also where no step was left to run."""
        model, pipe, batch = self.family("mlp")
        run = ["--train", "--inputs", batch, "--microbatches", 3, "--steps", 2, *SGD]
        self.pipec(0, "pipe-run", model, *run, "--output", "unsplit.pt")
        expected = ["--expect", "unsplit.pt", "--rtol", 0, "--atol", 0]
        compared = f"compared: {sum(value.numel() for value in torch.load('unsplit.pt').values())} numbers, largest absolute difference 0, relative 0\n"
        for schedule in "1f1b", "zb-h1":
            self.pipec(0, "pipe-run", pipe, *run, *expected, "--schedule", schedule, "--checkpoint", f"in-{schedule}", saying=[compared, "\nPASSED\n"])
        self.pipec(0, "pipe-run", pipe, *run, *expected, "--checkpoint", "in-1f1b", "--resume", saying=["the training is complete", "PASSED"])
        other = torch.load("unsplit.pt")
        other["head.weight"][0, 1] += 1
        torch.save(other, "changed.pt")
        self.pipec(7, "pipe-run", pipe, *run, "--expect", "changed.pt", saying='FAILED: state "head.weight"[0,1]: expected ')
        document = json.loads(self.pipec(7, "pipe-run", pipe, *run, "--expect", "changed.pt", "--json").out.partition("\n{\n")[2].join(["{", ""]))
        self.assertFalse(document["compare"]["equal"])
        del other["head.weight"]
        torch.save(other, "changed.pt")
        self.pipec(7, "pipe-run", pipe, *run, "--expect", "changed.pt", saying=f"FAILED: state: expected {len(other)} keys, got {len(other) + 1}")
        for schedule, ranks in ("interleaved-1f1b", 2), ("1f1b", 4):
            note = f"note: {schedule} runs the 4 stages on {ranks} ranks; the artifact was compiled for 4"
            (self.assertIn if ranks != 4 else self.assertNotIn)(note, self.pipec(0, "pipe-run", pipe, *run, *expected, "--schedule", schedule).err)
        tied, tiedPipe, words = self.family("gpt")
        run = ["--train", "--inputs", words, "--microbatches", 4, "--steps", 8]
        self.pipec(0, "pipe-run", tied, *run, "--optimizer", "adamw,lr=0.01", "--output", "tied.pt")
        self.pipec(7, "pipe-run", tiedPipe, *run, "--optimizer", "adamw,lr=0.02", "--expect", "tied.pt",
                   saying="note: one weight is in several stages, whose gradients are summed in another order than in the unsplit model")
        self.refused(USAGE, ["--expect: expected parameters and buffers by name, got a tuple of 2",
                             "help: write the file with --output of another training, as of the unsplit model"], "pipe-run", pipe, "--train", "--inputs", batch,
                     "--expect", batch)
        torch.save(torch.jit.load(model).state_dict(), "ordered.pt")
        self.refused(UNREADABLE, ["ordered.pt: expected values", "got a state dict", "as a plain dict: torch.save(dict(value), FILE)"], "pipe-run", pipe, "--train",
                     "--inputs", batch, "--expect", "ordered.pt")
        torch.save(dict(torch.jit.load(model).state_dict()), "plain.pt")
        self.pipec(0, "pipe-run", pipe, "--train", "--inputs", batch, "--expect", "plain.pt", saying="PASSED")

    def testSamplesFromAFile(self):
        model, pipe, batch = self.family("mlp")
        x, y = torch.load(batch)
        torch.save((x.repeat(3, 1)[:23] + torch.arange(23).unsqueeze(1) * 0.01, y.repeat(3)[:23]), "data.pt")
        run = ["--train", "--data", "data.pt", "--batch", 10, "--epochs", 2, "--microbatches", 3, *SGD]
        for shuffled in ([], ["--shuffle", "--seed", 7]):
            state, _ = self.trained(model, *run, *shuffled)
            self.sameBits(state, self.trained(pipe, *run, *shuffled)[0])
        self.assertFalse(torch.equal(state["head.weight"], self.trained(pipe, *run)[0]["head.weight"]))
        lines = self.pipec(0, "pipe-run", pipe, *run, "--json").out.splitlines()
        steps = [json.loads(line) for line in lines[:6]]  # 10 + 10 + 3 samples, twice
        self.assertEqual([step["step"] for step in steps], [1, 2, 3, 4, 5, 6])
        report = json.loads("\n".join(lines[6:]))
        self.assertEqual(report["loss"], [step["loss"] for step in steps])
        self.assertEqual((report["options"]["steps"], report["options"]["batch"]), (6, 10))

    def testTheLineOfEachStep(self):
        """For people one line, in JSON an object of these keys alone. Both say the same numbers, for an artifact and for its model."""
        model, pipe, batch = self.family("mlp")
        samples = len(torch.load(batch)[0])
        decimal, short = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?", r"\d+(?:\.\d{1,2})?"
        optimizer = ["--optimizer", "sgd,lr=0.1", "--lr-schedule", "step,every=2,gamma=0.5"]
        for options, rates in ((optimizer, [0.1, 0.1, 0.05]), ([], [0, 0, 0])):
            losses = []
            for what in (model, pipe):
                run = ["pipe-run", what, "--train", "--inputs", batch, "--microbatches", 2, "--steps", 3, *options]
                shown = self.pipec(0, *run).out.splitlines()[:3]
                lines = [json.loads(line) for line in self.pipec(0, *run, "--json", "--emit-grads", "grads.pt", "--force").out.splitlines()[:3]]
                rate = rf"  lr (?P<lr>{decimal})" if options else ""
                for index, (text, line) in enumerate(zip(shown, lines, strict=True)):
                    self.assertEqual(set(line), {"step", "loss", "lr", "step_ms", "samples_per_s", "peak_memory_bytes", "grad_norm", "skipped"})
                    self.assertEqual((line["step"], line["skipped"]), (index + 1, False))
                    for key in "loss", "step_ms", "samples_per_s", "grad_norm":
                        self.assertTrue(0 < line[key] < math.inf, line)
                    self.assertTrue(math.isclose(line["lr"], rates[index]), line)
                    self.assertTrue(math.isclose(line["samples_per_s"] * line["step_ms"], samples * 1000, rel_tol=1e-3), line)
                    self.assertIs(type(line["peak_memory_bytes"]), int)
                    self.assertGreater(line["peak_memory_bytes"], 1 << 20)
                    found = re.fullmatch(rf"step {index + 1}/3  loss (?P<loss>{decimal}){rate}  grad norm (?P<norm>{decimal})  (?P<time>{short}) (?P<unit>us|ms|s)"
                                         rf"  (?P<speed>\d+\.\d) samples/s  (?P<memory>{short}) (?P<bytes>MiB|GiB)", text)
                    self.assertTrue(found, text)
                    self.assertEqual((found["loss"], found["norm"]), (f"{line['loss']:.6g}", f"{line['grad_norm']:.4g}"))
                    if options:
                        self.assertEqual(found["lr"], f"{rates[index]:.4g}")
                    seconds = float(found["time"]) / {"us": 1e6, "ms": 1e3, "s": 1}[found["unit"]]
                    self.assertTrue(math.isclose(float(found["speed"]) * seconds, samples, rel_tol=0.01), text)
                    memory = float(found["memory"]) * {"MiB": 1 << 20, "GiB": 1 << 30}[found["bytes"]]
                    self.assertTrue(0.5 < memory / line["peak_memory_bytes"] < 2, (text, line))
                memories = [line["peak_memory_bytes"] for line in lines]
                self.assertEqual(memories, sorted(memories))  # the most so far
                squares = sum(gradient.double().square().sum() for gradient in torch.load("grads.pt").values())
                self.assertTrue(math.isclose(lines[-1]["grad_norm"], squares.sqrt(), rel_tol=1e-5), (lines[-1], squares))
                losses.append([line["loss"] for line in lines])
            self.assertEqual(losses[0], losses[1])
            self.assertEqual(len(set(losses[0])), 3 if options else 1)

    def testTheLineOfASkippedStep(self):
        run = [*self.saved(Explodes, torch.randn(4, 4)), "--microbatches", 4, *SGD, "--on-nan", "skip", "--steps", 2]
        torch.save((torch.zeros(4, 4),), "batch.pt")
        for what in ("m.pt", "m.pipe"):
            shown = self.pipec(0, "pipe-run", what, *run).out.splitlines()[:2]
            lines = [json.loads(line) for line in self.pipec(0, "pipe-run", what, *run, "--json").out.splitlines()[:2]]
            for index, (text, line) in enumerate(zip(shown, lines, strict=True)):
                self.assertRegex(text, rf"^step {index + 1}/2  loss -inf  skipped: not finite  grad norm -?(nan|inf)  [\d.]+ (us|ms|s)  [\d.]+ samples/s  [\d.]+ [MG]iB$")
                self.assertEqual([line[key] for key in ("step", "loss", "grad_norm", "skipped")], [index + 1, None, None, True])

    def testTheLastBatchIsLeftOut(self):
        model, pipe, batch = self.family("mlp")
        x, y = torch.load(batch)
        x, y = x.repeat(3, 1)[:23] + torch.arange(23).unsqueeze(1) * 0.01, y.repeat(3)[:23]
        torch.save((x, y), "data.pt")
        torch.save((x[:20], y[:20]), "complete.pt")
        run = ["--train", "--batch", 10, "--epochs", 2, "--microbatches", 3, *SGD]
        for what in (model, pipe):
            state, _ = self.trained(what, *run, "--data", "data.pt", "--drop-last")
            for options in ([], ["--drop-last"]):
                self.sameBits(state, self.trained(what, *run, "--data", "complete.pt", *options)[0])
            shuffled = ["--data", "data.pt", "--drop-last", "--shuffle", "--steps", 3]
            self.sameBits(self.trained(model, *run, *shuffled)[0], self.trained(what, *run, *shuffled)[0])
            report = json.loads("\n".join(self.pipec(0, "pipe-run", what, *run, "--data", "data.pt", "--drop-last", "--json").out.splitlines()[4:]))
            self.assertEqual((report["options"]["steps"], report["options"]["drop_last"]), (4, True))
            # The smallest batch counts.
            self.refused(USAGE, ["--microbatches: expected at most 3, the samples of the smallest batch of --data, got 4", "--drop-last"], "pipe-run", what, "--train",
                         "--data", "data.pt", "--batch", 10, "--microbatches", 4)
            self.pipec(0, "pipe-run", what, "--train", "--data", "data.pt", "--batch", 10, "--microbatches", 4, "--drop-last")
            self.refused(USAGE, ["--data: --drop-last: expected at most 23 as --batch, the number of samples, got 24", "no batch is complete"], "pipe-run", what,
                         "--train", "--data", "data.pt", "--batch", 24, "--drop-last")
            self.refused(USAGE, "--drop-last: expected --data with it, got none", "pipe-run", what, "--train", "--inputs", batch, "--drop-last")

    def testASmallerLastBatchOfWhatIsGivenWhole(self):
        """Nothing was compiled, so the help names options of the run; each of them helps."""
        torch.manual_seed(0)
        torch.jit.script(AllFlags()).save("flags.pt")
        torch.save(((torch.randn(23, 6), torch.ones(23)), torch.randn(23, 4)), "data.pt")
        run = ["pipe-run", "flags.pt", "--train", "--data", "data.pt", "--batch", 8, "--microbatches", 2, *SGD]
        done = self.pipec(USAGE, *run)
        for text in ("step 3: input flag, micro-batch 0, dimension 0: expected size 8, got 7", "every micro-batch gets the whole of flag",
                     "--batch-dim x=0,flag=0,y=0; otherwise --batch-dim flag=none", "--drop-last leaves out a smaller last batch"):
            self.assertIn(text, done.err)
        self.assertNotIn("compile again", done.err)
        for options in (["--batch-dim", "x=0,flag=0,y=0"], ["--batch-dim", "flag=none"], ["--drop-last"]):
            self.pipec(0, *run, *options)

    def testWhatEachStepGetsWhole(self):
        """Where nothing says how arguments are cut, a note names what is not."""
        torch.jit.script(InDict()).save("dict.pt")
        x = torch.randn(12, 4)
        torch.save((({"v": x},), x), "data.pt")
        self.pipec(0, "pipe-run", "dict.pt", "--train", "--data", "data.pt", "--batch", 4,
                   saying="note: --data: each step gets all of x.v (12): only arguments that are tensors are cut into steps")
        torch.save((({"v": x[:4]},), x), "data.pt")
        done = self.pipec(0, "pipe-run", "dict.pt", "--train", "--data", "data.pt", "--batch", 4)
        self.assertNotIn("each step gets all", done.err, "the samples of one step")

    def testTargets(self):
        model, pipe, batch = self.family("mlp")
        x, y = torch.load(batch)
        torch.save(x, "x.pt")
        torch.save(y, "y.pt")
        both = self.trained(pipe, "--train", "--inputs", batch, *SGD)
        self.sameBits(both, self.trained(pipe, "--train", "--inputs", "x.pt", "--targets", "y.pt", *SGD))

    def testMicroBatchesThatAreTooSmall(self):
        """A batch norm refuses one sample: the run ends with that, and is not cut in some other way that runs."""
        class Normed(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.norm, self.b = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)

            def forward(self, x: Tensor, y: Tensor) -> Tensor:
                return ((self.b(self.norm(self.a(x))) - y) ** 2).mean()

        self.saved(Normed, torch.randn(7, 6), torch.randn(7, 3))
        for parts, index in ((7, 0), (4, 3)):
            for what, running in (("m.pt", ""), ("m.pipe", "running the stage: ")):
                said = self.refused(USAGE, [f"micro-batch {index}: {running}ValueError: Expected more than 1 value per channel when training, got input size [1, 16]",
                                            "called with x: float32[1,6], y: float32[1,3]",
                                            "help: choose the batch and --microbatches so that each micro-batch has at least 2 samples"],
                                    "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", parts)
                self.assertTrue(said.err.startswith("error: step 1: expected at least 2 samples, got 1: "), said.err)
        self.pipec(0, "pipe-run", "m.pt", "--train", "--inputs", "batch.pt", "--microbatches", 3)

    def testATableOfActions(self):
        model, pipe, batch = self.family("unet")
        expected = self.trained(model, "--train", "--inputs", batch, "--microbatches", 4, "--steps", 2, *SGD)
        self.pipec(0, "pipe-schedule", "v-half", "--ranks", 2, "--microbatches", 4, "--csv", "table.csv")
        self.sameBits(expected, self.trained(pipe, "--train", "--inputs", batch, "--schedule", "table.csv", "--steps", 2, *SGD))
        self.pipec(0, "pipe-compile", model, "--train", "--inputs", batch, "--schedule", "table.csv", "-o", "table.pipe", "--cost", "analytic")
        self.assertEqual(e2e.plan("table.pipe")["schedule"], "table")
        self.sameBits(expected, self.trained("table.pipe", "--train", "--inputs", batch, "--steps", 2, *SGD))
        Path("marked.csv").write_bytes(b"\xef\xbb\xbf" + Path("table.csv").read_bytes())  # as some spreadsheets write it
        self.sameBits(expected, self.trained(pipe, "--train", "--inputs", batch, "--schedule", "marked.csv", "--steps", 2, *SGD))
        self.pipec(0, "pipe-schedule", "1f1b", "--ranks", 3, "--microbatches", 4, "--csv", "three.csv", "--force")
        self.refused(USAGE, "expected a table of 4 stages, got 3", "pipe-run", pipe, "--train", "--inputs", batch, "--schedule", "three.csv")
        # A table with a mistake is a wrong option; a file that is no table is unreadable.
        for text, code, problem in (("0F0,0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n", USAGE, "0F0 appears twice"), ("0B0,0F0\n1F0,1B0\n", USAGE, "0B0 precedes its forward"),
                                    ("0F0,0B0,0R0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n", USAGE, "rank 0, action 2: 0R0 follows its backward"),
                                    ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n2F0,2F1,2B0,2B1\n3F0,3F1,3B0,3B1\n", USAGE, "deadlock: rank 0"),
                                    ("0F0,0B0,0F9223372036854775807\n", UNREADABLE, "expected a stage and a micro-batch below 1048576"),
                                    ("stage,time\n", UNREADABLE, 'action "stage"'), ("", UNREADABLE, "wrong.csv is empty")):
            Path("wrong.csv").write_text(text, encoding="utf-8")
            self.refused(code, ["error: --schedule", problem], "pipe-run", pipe, "--train", "--inputs", batch, "--schedule", "wrong.csv")
            self.refused(code, ["error: --schedule", problem], "pipe-compile", model, "--train", "--inputs", batch, "--schedule", "wrong.csv", "-o", "wrong.pipe", "--cost",
                         "analytic")

    def testTablesOfAllLayouts(self):
        """Stages around the ranks, although the search prefers them there and back; an uneven number per rank; recomputes of some micro-batches."""
        model, _, batch = self.family("mlp")
        self.pipec(0, "pipe-schedule", "interleaved-1f1b", "--ranks", 2, "--microbatches", 4, "--csv", "around.csv", "--force")
        uneven = ["0F0,0F1,1F0,1F1,,4F0,4F1,4B0,4B1,,,1B0,1R1,1B1,0B0,0B1", ",,,2F0,2F1,3F0,3F1,,,3R0,3B0,3B1,2B0,2B1"]
        Path("uneven.csv").write_text("\n".join(uneven) + "\n", encoding="utf-8")
        for table, parts, ranks, again in (("around", 4, [0, 1, 0, 1], []), ("uneven", 2, [0, 0, 1, 1, 0], [1, 3])):
            expected = self.trained(model, "--train", "--inputs", batch, "--microbatches", parts, "--steps", 2, *SGD)
            done = self.pipec(0, "pipe-compile", model, "--train", "--inputs", batch, "--schedule", f"{table}.csv", "-o", "table.pipe", "--cost", "analytic",
                              "--force", "--recompute", ",".join(map(str, again)) or "never")
            self.assertIn(f"training: table, {len(ranks)} stages on 2 ranks, {parts} micro-batches", done.out)
            self.assertEqual([stage["rank"] for stage in e2e.plan("table.pipe")["stages"]], ranks)
            self.assertEqual(e2e.plan("table.pipe")["training"]["recompute"], again)
            self.sameBits(expected, self.trained("table.pipe", "--train", "--inputs", batch, "--steps", 2, *SGD), table)
            self.pipec(0, "pipe-inspect", "table.pipe", "--schedule")

    def testRecomputesOfSomeMicroBatches(self):
        """All but the last, and those of listed stages: seen in the trace, and the same bits."""
        model, batch = training_models.save("mlp")
        expected = self.trained(model, "--train", "--inputs", batch, "--microbatches", 4, "--steps", 2, *SGD)
        for recompute, counts in (("except-last", [3, 3, 3]), ("always", [4, 4, 4]), ("0,2", [4, 0, 4]), ("never", [0, 0, 0])):
            self.pipec(0, "pipe-compile", model, "--train", "--stages", 3, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "--recompute", recompute,
                       "-o", "some.pipe", "--force")
            found = self.trained("some.pipe", "--train", "--inputs", batch, "--microbatches", 4, "--steps", 2, *SGD, "--trace", "trace.json")
            self.sameBits(expected, found, recompute)
            events = json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
            measured = [event["name"] for event in events if event.get("ph") == "X" and event.get("pid") < 3]  # 3 to 5: simulated
            self.assertEqual([sum(re.fullmatch(rf"{stage}/\d/R", name) is not None for name in measured) for stage in range(3)], counts, recompute)

    def testARecomputePrintsNothing(self):
        """Each forward prints once, in a stage that is recomputed as the plan says or as a table says."""
        run = self.saved(Prints, torch.randn(8, 4), options=("--recompute", "always"))
        expected = self.trained("m.pt", *run, "--microbatches", 4, *SGD)
        Path("again.csv").write_text("0F0,0F1,0R0,0B0,0F2,0F3,0R1,0B1,0R2,0B2,0R3,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", encoding="utf-8")
        for schedule in "1f1b", "again.csv":
            self.sameBits(expected, self.trained("m.pipe", *run, "--microbatches", 4, "--schedule", schedule, *SGD), schedule)
            done = self.pipec(0, "pipe-run", "m.pipe", *run, "--microbatches", 4, "--schedule", schedule, *SGD, "--trace", "trace.json", "--force")
            self.assertEqual((done.out + done.err).count("half way 2"), 4, schedule)
            events = json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
            recomputed = [event["name"] for event in events if event.get("ph") == "X" and event.get("cat") == "R" and event["pid"] < 2]
            self.assertEqual(len([name for name in recomputed if name.startswith("0/")]), 4, recomputed)

    def testALossThatIsASum(self):
        """Trainings weigh micro-batches by samples unless they are told otherwise: said by the compile and by the run, with what to do."""
        pipe = self.saved(SummedLoss, torch.randn(8, 4))
        says = "is a sum over samples, of which a training takes the mean over micro-batches"
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "-o", "m.pipe", "--force", saying=says)
        expected = self.trained("m.pt", *pipe, "--microbatches", 1)[1]
        for what in ("m.pt", "m.pipe"):
            self.pipec(0, "pipe-run", what, *pipe, "--microbatches", 2, saying=[says, "pass --loss-reduction sum"])
            for quiet in (["--microbatches", 1], ["--microbatches", 2, "--loss-reduction", "sum"], ["--microbatches", 2, "--loss-reduction", "mean"]):
                self.assertNotIn(says, self.pipec(0, "pipe-run", what, *pipe, *quiet).err)
            for name, gradient in self.trained(what, *pipe, "--microbatches", 2, "--loss-reduction", "sum")[1].items():
                self.assertLess((gradient - expected[name]).norm(), 1e-5 * expected[name].norm(), name)

    def testUpdatesNothingWithoutAnOptimizer(self):
        model, pipe, batch = self.family("mlp")
        before = torch.jit.load(model).state_dict()
        state, gradients = self.trained(pipe, "--train", "--inputs", batch, "--steps", 2)
        self.sameBits(dict(before), {name: state[name] for name in before})
        self.assertEqual(len(gradients), len(before))

    def testEachStepStartsFromTheBatchAsGiven(self):
        run = self.saved(WritesItsInput, torch.randn(8, 6))
        for what in ("m.pt", "m.pipe"):
            for parts in (1, 2):
                first, third = (self.trained(what, *run, "--microbatches", parts, "--steps", steps)[1] for steps in (1, 3))
                self.sameBits(first, third, f"{what}, {parts} micro-batches")

    def testGradientsAreThoseBeforeClipping(self):
        model, pipe, batch = self.family("mlp")
        free = self.trained(pipe, "--train", "--inputs", batch, "--microbatches", 4, "--optimizer", "sgd,lr=0.1")
        for what in (model, pipe):
            clipped = self.trained(what, "--train", "--inputs", batch, "--microbatches", 4, "--optimizer", "sgd,lr=0.1", "--clip-norm", 0.01)
            self.sameBits(free[1], clipped[1])
            self.assertFalse(torch.equal(free[0]["head.weight"], clipped[0]["head.weight"]))

    def testNotFinite(self):
        x = torch.randn(4, 4)
        x[2] = 0
        run = [*self.saved(Explodes, torch.randn(4, 4)), "--microbatches", 4, "--optimizer", "sgd,lr=0.1"]
        torch.save((x,), "batch.pt")
        for what in ("m.pt", "m.pipe"):
            stage = "" if what == "m.pt" else f"stage {len(e2e.plan(what)['stages']) - 1}, "
            self.refused(NOT_FINITE, [f"error: step 1: {stage}micro-batch 2: expected a finite loss, got -inf", "help: --on-nan skip"], "pipe-run", what, *run)
            state, _ = self.trained(what, *run, "--on-nan", "skip", "--steps", 2)
            before = torch.jit.load("m.pt").state_dict()
            self.sameBits(before["a.weight"], state["a.weight"], "skipped steps update nothing")
            done = e2e.run("pipe-run", what, *run, "--on-nan", "skip:2", "--steps", 5)
            self.assertEqual(done.code, NOT_FINITE, done)
            self.assertIn("step 2: expected fewer than 2 steps in a row", done.err)

    def testAParameterWhoseElementsShareMemory(self):
        """As in PyTorch, no optimizer can update it; here it is named before the first step."""
        run = ["pipe-run", None, *self.saved(Expanded, torch.randn(8, 4)), "--microbatches", 2]
        torch.save((torch.randn(8, 4),), "batch.pt")
        for run[1] in ("m.pt", "m.pipe"):
            self.refused(USAGE, ["parameter scale: expected memory of its own for each element", "got an expanded tensor", "help: store a copy"], *run, *SGD)
            self.pipec(0, *run, *SGD, "--freeze", "scale")
            self.pipec(0, *run)

    def testAnArgumentThatIsNotFinite(self):
        """A NaN in an argument is named with its micro-batch; an infinite number, as masks have, only where there is no NaN."""
        model, pipe, batch = self.family("mlp")
        x, y = torch.load(batch)
        masked = x.clone()
        masked[0, 0] = float("inf")
        torch.save((masked, y), "infinite.pt")
        masked[7, 1] = float("nan")
        torch.save((masked, y), "nan.pt")
        for what in (model, pipe):
            run = ["pipe-run", what, "--train", "--microbatches", 5, *SGD, "--inputs"]
            self.refused(NOT_FINITE, "help: argument x of micro-batch 3 has a NaN; --on-nan skip", *run, "nan.pt")
            self.refused(NOT_FINITE, "help: argument x of micro-batch 0 has an infinite number; --on-nan skip", *run, "infinite.pt")

    def testStepsThatAreSkippedAmongOthers(self):
        """Neither weights nor momentum change on any stage, also if the gradients of one stage alone are not finite. The learning rate counts them."""
        finite, zeros, large = torch.randn(40, 6), torch.zeros(1, 6), torch.full((1, 6), 10.0)
        batches = [*finite.split(8)]
        torch.save((torch.cat(batches),), "finite.pt")
        batches[1:1] = [torch.cat([large, finite[:7]])]
        batches[3:3] = [torch.cat([finite[:5], zeros, finite[5:7]])]
        torch.save((torch.cat(batches),), "data.pt")
        skipped = [False, True, False, True, False, False, False]

        def steps(what, *options):
            lines = self.pipec(0, "pipe-run", what, *options, "--output", "state.pt", "--force", "--json").out.splitlines()[:len(skipped)]
            return [[json.loads(line)[key] for line in lines] for key in ("skipped", "lr")], torch.load("state.pt")

        for options, tied in (([], False), (["--tied", "transmit"], True), (["--tied", "replicate"], True)):
            torch.manual_seed(0)
            torch.jit.script(Breaks(tied)).save("m.pt")
            self.pipec(0, "pipe-compile", "m.pt", "--train", "--at", "b,c", "--inputs", "f32[8,6]", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe",
                       "--force", *options)
            run = ["--train", "--batch", 8, "--microbatches", 4, "--on-nan", "skip"]
            run += ["--optimizer", "sgd,lr=0.01"] if tied else [*SGD, "--lr-schedule", "cosine,warmup=2", "--clip-norm", 0.1]
            for what in ("m.pt", "m.pipe"):  # as if the data had only the other batches
                constant = ["--train", "--batch", 8, "--microbatches", 4, *SGD, "--clip-norm", 0.1, "--on-nan", "skip"]
                only = self.trained(what, *constant, "--data", "finite.pt")[0]
                self.sameBits(only, self.trained(what, *constant, "--data", "data.pt")[0], f"{what} {options}")
            run += ["--data", "data.pt"]
            expected = steps("m.pt", *run)
            self.assertEqual(expected[0][0], skipped)
            rates = [0.01] * 7 if tied else [0.1 * ((s + 1) / 3 if s < 2 else (1 + math.cos(math.pi * (s - 2) / 5)) / 2) for s in range(7)]
            for rate, plain, skips in zip(expected[0][1], rates, skipped, strict=True):
                self.assertAlmostEqual(rate, 0 if skips else plain, delta=1e-12)
            self.assertTrue(all(bool(value.isfinite().all()) for value in expected[1].values()))
            for order in (["--schedule", "1f1b"], ["--schedule", "zb-h1"], ["--dynamic", 2]):
                found = steps("m.pipe", *run, *order)
                if not tied:
                    self.sameBits(expected, found, order)
                    continue
                self.assertEqual((found[0], set(found[1])), (expected[0], set(expected[1])))
                for name, value in found[1].items():
                    off = (value.double() - expected[1][name].double()).norm() / expected[1][name].double().norm()
                    self.assertLess(off, 1e-6, f"{options} {order}: {name}")

    def testSkippedStepsLeaveState(self):
        """The running statistics of a batch norm keep a NaN for ever: said by name where they are written."""
        run = [*self.saved(Normed, torch.randn(8, 4)), "--microbatches", 2, "--on-nan", "skip", *SGD]
        x = torch.randn(8, 4)
        for what in ("m.pt", "m.pipe"):
            torch.save((x,), "batch.pt")
            self.assertNotIn("not finite after the training", self.pipec(0, "pipe-run", what, *run).err)
            torch.save((x.index_fill(0, torch.tensor([5]), float("nan")),), "batch.pt")
            self.pipec(0, "pipe-run", what, *run, saying=["skipped: not finite", "warning: not finite after the training: norm.running_mean, norm.running_var; a skipped step keeps"])

    def testADivergingTraining(self):
        """The first advice on a step that is not finite after finite ones is on the learning rate, not on the data."""
        model, pipe, batch = self.family("mlp")
        advice = "help: choose a smaller learning rate, or clip the gradients with --clip-norm: the step before was finite; --on-nan skip"
        for what in (model, pipe):
            self.pipec(NOT_FINITE, "pipe-run", what, "--train", "--inputs", batch, "--microbatches", 2, "--steps", 9, "--optimizer", "sgd,lr=1e38", saying=advice)

    def testAStageThatFails(self):
        run = [*self.saved(Raises, torch.randn(8, 4)), "--microbatches", 4, *SGD]
        x = torch.randn(8, 4)
        x[7] = 200
        torch.save((x,), "batch.pt")
        done = self.refused(USAGE, ["stage 1", "micro-batch 3", "over a hundred"], "pipe-run", "m.pipe", *run)
        self.assertRegex(done.err, r"error: step 1: stage 1 \(.*\), micro-batch 3: ")

    def testAMeanThatIsNoMeanOfMeans(self):
        """Said with both numbers by the compile."""
        target = torch.randint(1, 8, (4, 5))
        target[:2, 1:] = 0
        torch.save((torch.randint(0, 8, (4, 5)), target), "batch.pt")
        torch.manual_seed(0)
        torch.jit.script(Masked()).save("m.pt")
        done = self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe",
                          "--force")
        self.assertRegex(done.err, r"warning: the result is the mean over micro-batches, which differs from the whole batch \([\d.]+ for the whole batch, [\d.]+")

    def testOneModeIsNotTheOther(self):
        model, pipe, batch = self.family("mlp")
        self.refused(USAGE, ["expected an artifact compiled for inference, got one compiled for training", "pipe-run --train"], "pipe-run", pipe, "--inputs",
                     batch)
        self.pipec(0, "pipe-compile", model, "--stages", 2, "--inputs", batch, "--cost", "analytic", "-o", "infer.pipe")
        self.refused(USAGE, ["expected an artifact compiled for training, got one compiled for inference", "pipe-compile --train"], "pipe-run", "infer.pipe",
                     "--train", "--inputs", batch)

    def testTheCheckOfSplitBackwardsChangesNothing(self):
        """Dropout: the check draws numbers of its own, and leaves those of the run as they are."""
        _, pipe, batch = self.family("gpt")
        run = ["pipe-run", pipe, "--train", "--inputs", batch, "--schedule", "zb-h1", "--microbatches", 2, *SGD, "--force", "--output"]
        self.pipec(0, *run, "without.pt")
        done = self.pipec(0, *run, "with.pt", "--verify", "run", "--json")
        self.assertIn('"verify":"run"', done.out.replace(" ", ""))
        self.assertRegex(done.err, r"note: --verify run: I and W of \d of 4 stages have the gradients of the whole backward\n(note: .*\n)*PASSED\n$")
        without, with_ = torch.load("without.pt"), torch.load("with.pt")
        self.assertTrue(all(torch.equal(without[name], with_[name]) for name in without))

    def testOptionsThatDoNotFit(self):
        model, pipe, batch = self.family("mlp")
        run = ["--train", "--inputs", batch]
        self.pipec(0, "pipe-compile", model, "--infer", "--stages", 2, "--inputs", batch, "-o", "evaluated.pipe", "--force")
        for what in (model, pipe):
            for options, saying in (
                    (["--optimizer", "sdg"], 'expected one of sgd, adam, adamw, rmsprop, adagrad, got "sdg"'),
                    (["--optimizer", "sgd,lr=fast"], 'expected a number for lr, got "fast"'),
                    (["--optimizer", "sgd,rate=1"], "expected settings of sgd: lr, momentum, dampening, weight_decay, nesterov"),
                    (["--optimizer", "adam,beta1=1"], "beta1: expected at least 0 and less than 1, got 1"),
                    (["--optimizer", "sgd,nesterov=1"], "expected a momentum"),
                    (["--optimizer", "adamw,lr=1,lr=2"], "--optimizer: lr: expected it once, got it twice"),
                    (["--optimizer", "rmsprop,alpha=2"], "alpha: expected at least 0 and at most 1, got 2"),
                    (["--clip-norm", 1], "--clip-norm: expected --optimizer with it"),
                    ([*SGD, "--clip-norm", 0], "--clip-norm: expected more than 0, got 0"),
                    ([*SGD, "--lr-schedule", "sine"], "expected one of constant, cosine, linear, step"),
                    ([*SGD, "--lr-schedule", "step"], "step: expected every=N with it"),
                    ([*SGD, "--lr-schedule", "step,every=0"], "every: expected a whole number of at least 1, got 0"),
                    ([*SGD, "--lr-schedule", "cosine,steps=0"], "steps: expected a whole number of at least 1, got 0"),
                    ([*SGD, "--lr-schedule", "cosine,warmup=10,steps=5"], "warmup: expected at most 5, its steps, got 10"),
                    ([*SGD, "--lr-schedule", "linear,floor=2"], "floor: expected at most 1, the factor after the warmup, got 2"),
                    (["--presplit"], [f"--presplit: expected a list with the arguments of each micro-batch in {batch}, got a tensor as element 0",
                                      "help: save a list with a tuple (x, target) for each micro-batch; leave --presplit out"]),
                    (["--on-nan", "ignore"], "--on-nan: expected stop, skip or skip:N, got ignore"),
                    (["--steps", 0], "--steps: expected at least 1, got 0"),
                    (["--batch", 4], "--batch: expected --data or --eval-data with it"),
                    (["--loss-reduction", "max"], "--loss-reduction: expected mean or sum, got max"),
                    (["--repeat", 3], "--repeat: expected it without --train"),
                    (["--verify", "graph"], "--verify: expected none or run, got graph"),
            ):
                self.refused(USAGE, saying, "pipe-run", what, *run, *options)
        self.refused(USAGE, "--verify run: expected an artifact, got a .pt", "pipe-run", model, *run, "--verify", "run")
        before = Path(batch).read_bytes()
        for option in "--output", "--emit-grads", "--trace":
            self.refused(USAGE, f"{option}: expected another file than that of --inputs, got ./{batch}", "pipe-run", pipe, *run, option, f"./{batch}", "--force")
        Path("targets.pt").write_bytes(before)
        self.refused(USAGE, "--output: expected another file than that of --targets, got ./targets.pt", "pipe-run", pipe, *run, "--targets", "targets.pt",
                     "--output", "./targets.pt", "--force")
        self.refused(USAGE, f"--output: expected another file than that of the model, got {model}", "pipe-run", model, *run, "--output", model, "--force")
        self.assertEqual(Path(batch).read_bytes(), before)
        x, y = torch.load(batch)
        torch.save((x.repeat(4, 1)[:9], y.repeat(4)[:9]), "nine.pt")
        self.pipec(0, "pipe-compile", model, "--train", "--stages", 4, "--ranks", 2, "--schedule", "dualpipev", "--microbatches", 4, "--inputs", batch, "--cost",
                   "analytic", "-o", "dual.pipe")
        few = ["pipe-run", "dual.pipe", "--train", "--data", "nine.pt", "--batch", 8, *SGD]
        self.refused(USAGE, ["the last batch of an epoch, with 1 sample: --schedule: dualpipev: 2 ranks: expected at least 4 micro-batches, got 1",
                             "or leave that batch out with --drop-last"], *few)
        for options in ["--drop-last"], ["--steps", 1]:
            self.pipec(0, *few, *options)
        self.refused(USAGE, "--data: expected it without --inputs", "pipe-run", pipe, *run, "--data", batch, "--batch", 2)
        Path("there.pt").write_text("")
        self.refused(USAGE, "--emit-grads: expected a new file, got there.pt", "pipe-run", pipe, *run, "--emit-grads", "there.pt")
        self.refused(8, "--emit-grads: cannot write no/such.pt: no such file or directory", "pipe-run", pipe, *run, "--emit-grads", "no/such.pt")
        self.refused(USAGE, f"--emit-grads: {pipe}/g.pt is inside an artifact", "pipe-run", pipe, *run, "--emit-grads", f"{pipe}/g.pt", "--force")
        self.refused(USAGE, f"--checkpoint: {pipe}/c/step-1 is inside an artifact", "pipe-run", pipe, *run, "--checkpoint", f"{pipe}/c")
        self.assertFalse(Path(pipe, "c").exists())
        self.refused(USAGE, "--emit-grads: expected another file than that of --output, got one.pt", "pipe-run", pipe, *run, "--emit-grads", "one.pt",
                     "--output", "./one.pt")
        self.refused(USAGE, "--data: expected --batch with it", "pipe-run", pipe, "--train", "--data", batch)
        x, target = torch.load(batch)
        torch.save((x, target[:-1]), "uneven.pt")
        self.refused(USAGE, f"--data: expected as many samples in target as in x, {len(x)}, got {len(x) - 1}", "pipe-run", pipe, "--train", "--data",
                     "uneven.pt", "--batch", 2)
        form = "help: save one value with all samples for each of x, target: torch.save((x, target), FILE), or a dict with these names"
        torch.save(list(zip(x, target)), "samples.pt")
        torch.save({"inputs": x, "targets": target}, "named.pt")
        torch.save((x,), "x.pt")
        for what in (pipe, model):
            for name, saying in (("samples.pt", f"arguments: expected at most 2 (x, target), got {len(x)}"),
                                 ("named.pt", "argument inputs: expected one of x, target, got an unknown name"),
                                 ("x.pt", "argument target: expected a value of type Tensor, got none")):
                self.refused(USAGE, [f"error: --data: {saying}", form], "pipe-run", what, "--train", "--data", name, "--batch", 2)
                self.refused(USAGE, [f"error: --eval-data: {saying}", form], "pipe-run", what, "--train", "--inputs", batch, "--eval-data", name,
                             *(["--eval-artifact", "evaluated.pipe"] if what == pipe else []))
            self.refused(USAGE, ["argument target: expected a value of type Tensor, got none", "help: --inputs, and after it --targets, give x, target: "],
                         "pipe-run", what, "--train", "--inputs", "x.pt")
            self.refused(USAGE, ["--train: expected --inputs or --data with it, got none", "help: the model takes x, target: pass a batch with --inputs"],
                         "pipe-run", what, "--train")
        torch.save((x[:0], target[:0]), "empty.pt")
        self.refused(USAGE, "--data: x: expected samples, got an empty tensor", "pipe-run", pipe, "--train", "--data", "empty.pt", "--batch", 2)
        torch.save([(x[:0], target[:0])] * 2, "empty.parts.pt")
        for what in (pipe, model):
            for options in (["--inputs", "empty.pt"], ["--inputs", "empty.parts.pt", "--presplit"]):
                self.refused(USAGE, ["step 1: batch: expected at least 1 sample to train on, got 0", "pass a batch whose tensors are not empty"], "pipe-run", what, "--train",
                             *options)
        self.refused(USAGE, "--optimizer: expected --train with it", "pipe-run", pipe, "--inputs", batch, *SGD)
        self.refused(USAGE, ["expected the name of a schedule, got zb-h", "did you mean zb-h1"], "pipe-run", pipe, *run, "--schedule", "zb-h")
        result = self.refused(USAGE, ["expected the name of a schedule, got foo", "pipe-schedule --list"], "pipe-run", pipe, *run, "--schedule", "foo")
        self.assertNotIn("did you mean", result.err)
        self.refused(USAGE, ["got gpip", "did you mean gpipe"], "pipe-compile", model, "--train", "--stages", 2, "--inputs", batch, "--schedule", "gpip", "-o", "x.pipe")
        self.refused(USAGE, "expected a schedule of a training, got forward-only", "pipe-run", pipe, *run, "--schedule", "forward-only")

    def testModelsOfManyKinds(self):
        for make, cut, options in ((ThreeNames, "b", ["--tied", "transmit"]), (ThreeNames, "b", ["--tied", "replicate"]), (OneNorm, "b", []),
                                   (Counter, "b", []), (InPlace, "b", []), (InPlace, "b", ["--recompute", "always"]), (OneNorm, "b", ["--recompute", "always"]),
                                   (Keeps, "b", [])):
            torch.manual_seed(0)
            torch.jit.script(make()).save("m.pt")
            torch.save((torch.randn(6, 6),), "batch.pt")
            self.pipec(0, "pipe-compile", "m.pt", "--train", "--at", cut, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe",
                       "--force", *options)
            run = ["--train", "--inputs", "batch.pt", "--microbatches", 3, "--steps", 2, "--optimizer", "sgd,lr=0.1"]
            expected = self.trained("m.pt", *run)
            for schedule in ("gpipe", "1f1b", "zb-h1"):
                found = self.trained("m.pipe", *run, "--schedule", schedule)
                what = f"{make.__name__} {options} {schedule}"
                self.assertEqual(set(found[1]), set(expected[1]), what)
                for kind in (0, 1):
                    for name, value in found[kind].items():
                        if make is ThreeNames:
                            off = (value.double() - expected[kind][name].double()).norm() / expected[kind][name].double().norm()
                            self.assertLess(off, 1e-6, f"{what}: {name}")
                        else:
                            self.sameBits(expected[kind][name], value, f"{what}: {name}")

    def testAParameterThatIsABufferKeepsItsName(self):
        """--emit-grads has the names of named_parameters(); options take the buffer's, too."""
        torch.manual_seed(0)
        torch.jit.script(WeightAsBuffer()).save("m.pt")
        torch.save((torch.randn(6, 6),), "batch.pt")
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 3, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe", "--force")
        names = [name for name, _ in torch.jit.load("m.pt").named_parameters()]
        run = ["--train", "--inputs", "batch.pt", "--microbatches", 3, *SGD]
        for what in ("m.pt", "m.pipe"):
            state, gradients = self.trained(what, *run, "--steps", 3)
            self.assertEqual(set(gradients), set(names), what)
            frozen = [self.trained(what, *run, "--steps", 3, "--freeze", name) for name in ("b.weight", "ref")]
            self.assertEqual(set(frozen[1][1]), set(names) - {"b.weight"}, what)
            self.sameBits(frozen[0][0], frozen[1][0], what)
            grouped = [self.trained(what, *run, "--steps", 3, "--group", name + ",lr=0.5")[0] for name in ("b.weight", "ref")]
            self.sameBits(*grouped, what)
            self.assertFalse(torch.equal(grouped[0]["b.weight"], state["b.weight"]), what)
            # Its momentum is in a checkpoint.
            self.trained(what, *run, "--steps", 2, "--checkpoint", f"{what}.ck")
            self.sameBits(state, self.trained(what, *run, "--steps", 3, "--checkpoint", f"{what}.ck", "--resume")[0], what)

    def testForkedCallsRunWhereTheyAreForked(self):
        """As in the module before it was scripted. A scripted one forks to a thread, whose history orders the sums."""
        x = torch.randn(8, 16)
        run = [*self.saved(ForkedUse, x), "--microbatches", 2]
        torch.manual_seed(0)
        model = ForkedUse()
        torch.set_num_threads(1)
        for part in x.tensor_split(2):
            (model(part) * 0.5).backward()
        expected = {name: parameter.grad for name, parameter in model.named_parameters()}
        for what in ("m.pt", "m.pipe"):
            self.sameBits(expected, self.trained(what, *run)[1], what)

    def testALossInItsOwnFile(self):
        torch.manual_seed(0)
        body, criterion = Body(), Criterion()
        torch.jit.script(body).save("body.pt")
        torch.jit.script(criterion).save("criterion.pt")
        x, target = torch.randn(6, 4), torch.randint(0, 3, (6,))
        torch.save((x, 1.0, target), "batch.pt")
        self.pipec(0, "pipe-compile", "body.pt", "--loss", "criterion.pt", "--stages", 3, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b",
                   "-o", "joined.pipe", "--force")
        plan = e2e.plan("joined.pipe")
        self.assertEqual([entry["name"] for entry in plan["signature"]["inputs"]], ["x", "scale", "target", "scale_of_loss"])
        names = {parameter["name"] for parameter in plan["training"]["parameters"]}
        self.assertEqual(names, {"a.weight", "a.bias", "b.weight", "b.bias", "loss.weight", "loss.bias", "loss_.weight"})
        merged = self.pipec(0, "pipe-merge", "joined.pipe", "-o", "merged.pt", "--force")
        self.assertIn("note: the only method of the merged model is forward_with_loss, ", merged.err)
        self.assertIn("pipe-merge joined.pipe --into MODEL.pt -o OUT.pt", merged.err)
        again = self.compiled("merged.pt", "again.pipe", "--method", "forward_with_loss", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic")
        self.assertEqual(again["source_digest"], plan["source_digest"])
        into = self.pipec(0, "pipe-merge", "joined.pipe", "--into", "body.pt", "-o", "own.pt", "--force")
        self.assertIn("left out: ", into.err)
        self.assertIn(" of the loss, which body.pt does not have: ", into.err)
        self.assertIn("loss_.weight", into.err)
        self.sameBits([*body.state_dict().values()], [*torch.jit.load("own.pt").state_dict().values()])
        run = ["--train", "--inputs", "batch.pt", "--microbatches", 3, "--steps", 3, "--optimizer", "sgd,lr=0.1"]
        expected = self.trained("body.pt", *run, "--loss", "criterion.pt")
        for schedule in ("1f1b", "zb-h1"):
            self.sameBits(expected, self.trained("joined.pipe", *run, "--schedule", schedule))
        optimizer = torch.optim.SGD([*body.parameters(), *criterion.parameters()], 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            for a, b in zip(x.tensor_split(3), target.tensor_split(3)):
                criterion(*body(a), b).backward(torch.tensor(1 / 3))
            optimizer.step()
        for name, value in body.state_dict().items():
            self.assertLess((expected[0][name] - value).abs().max(), 1e-6, name)
        self.assertLess((expected[0]["loss_.weight"] - criterion.weight).abs().max(), 1e-6)
        class Takes(nn.Module):
            def forward(self, count: int) -> Tensor:
                return torch.zeros([1]) * count

        torch.jit.script(Takes()).save("takes.pt")
        self.refused(USAGE, ["--loss: expected a forward that takes the model's result, Tuple[Tensor, Tensor], and then targets, got one that takes (int)"],
                     "pipe-compile", "body.pt", "--loss", "takes.pt", "--stages", 2, "--inputs", "batch.pt")
        torch.save((x, 1.0), "alone.pt")
        self.refused(USAGE, ["argument target: expected a value of type Tensor, got none",
                             "help: --inputs takes the arguments of the model (x, scale) and then the targets of the loss (target, scale_of_loss)"],
                     "pipe-compile", "body.pt", "--loss", "criterion.pt", "--stages", 3, "--inputs", "alone.pt")
        self.refused(USAGE, "--loss: expected a .pt, got an artifact", "pipe-run", "joined.pipe", *run, "--loss", "criterion.pt")
        self.refused(USAGE, "--loss-output: expected a .pt, got an artifact", "pipe-run", "joined.pipe", *run, "--loss-output", "loss")

    def testAMethodWithTheNameOfAJoinedOne(self):
        """It is the author's: no loss of another file is expected in it, or of it."""
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        method = ["--method", "forward_with_loss"]
        run = [*self.saved(OwnLoss, *batch, options=method), "--microbatches", 3, "--steps", 2, *SGD]
        self.sameBits(self.trained("m.pt", *run, *method), self.trained("m.pipe", *run))
        done = self.pipec(0, "pipe-run", "m.pt", *method, "--inputs", "batch.pt", "--output", "out.pt", "--force", "--threads", 1)
        self.assertIn("drop is in training mode (dropout)", done.err)
        self.pipec(0, "pipe-run", "m.pt", *method, "--infer", "--inputs", "batch.pt", "--output", "out.pt", "--force", "--threads", 1)
        torch.set_num_threads(1)
        self.sameBits(torch.jit.load("m.pt").eval().forward_with_loss(*batch).detach(), torch.load("out.pt"))
        self.pipec(0, "pipe-check", "m.pipe", "--against", "m.pt", saying="operator by operator")
        torch.jit.script(nn.CrossEntropyLoss()).save("loss.pt")
        self.refused(USAGE, "--loss: expected an artifact with a joined loss, got one of method forward_with_loss", "pipe-check", "m.pipe", "--against", "m.pt",
                     "--loss", "loss.pt")
        torch.save((*batch, batch[1]), "more.pt")
        self.refused(USAGE, "if the last one is the targets of a loss", "pipe-compile", "m.pt", *method, "--stages", 2, "--inputs", "more.pt", "-o", "more.pipe")

    def testALossBesideAMethodWithItsName(self):
        """The joined method gets another name, which all commands say."""
        torch.jit.script(nn.CrossEntropyLoss()).save("loss.pt")
        batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
        run = [*self.saved(OwnLoss, *batch, options=["--loss", "loss.pt"]), "--microbatches", 3, "--steps", 2, *SGD]
        plan = e2e.plan("m.pipe")
        self.assertEqual(plan["signature"]["method"], "forward_with_loss_")
        self.sameBits(self.trained("m.pt", *run, "--loss", "loss.pt"), self.trained("m.pipe", *run))
        named = json.loads("\n".join(self.pipec(0, "pipe-run", "m.pt", *run, "--loss", "loss.pt", "--json").out.splitlines()[2:]))
        self.assertEqual(named["options"]["method"], "forward")  # as given
        self.pipec(0, "pipe-check", "m.pipe", "--against", "m.pt", "--loss", "loss.pt", saying="operator by operator")
        self.refused(USAGE, "expected the loss that the compile joined to the model (method forward_with_loss_), got none", "pipe-check", "m.pipe", "--against",
                     "m.pt")
        self.pipec(0, "pipe-merge", "m.pipe", "-o", "merged.pt", "--force", saying="note: the only method of the merged model is forward_with_loss_, ")
        self.pipec(0, "pipe-check", "m.pipe", "--against", "merged.pt", saying="operator by operator")
        again = self.compiled("merged.pt", "again.pipe", "--method", "forward_with_loss_", "--train", "--stages", 2, "--inputs", "batch.pt", "--cost", "analytic")
        self.assertEqual(again["source_digest"], plan["source_digest"])

    def testTheExampleOfTheDocumentation(self):
        model, _, batch = self.family("gpt")
        done = e2e.run(e2e.BIN / "pipec-training-example", model, batch, "example.pipe")
        self.assertEqual(done.code, 0, done)
        losses = [float(text) for text in re.findall(r"loss (\S+)", done.out)]
        self.assertEqual(len(losses), 7)
        self.assertLess(losses[-1], losses[0])
        names = [parameter["name"] for parameter in e2e.plan("example.pipe")["training"]["parameters"]]  # the tied weight once
        read = [name for name in names if ".cross." not in name and ".norm3." not in name]  # by this model's loss
        self.assertIn(f"optimizer state of {len(read)} parameters\n", done.out)
        inEvalMode = float(re.search(r"in eval mode (\S+) over \d+ samples", done.out)[1])
        reference = self.pipec(0, "pipe-run", model, "--train", "--inputs", batch, "--microbatches", 4, "--steps", 5, "--optimizer", "adamw,lr=0.01",
                               "--clip-norm", 1, "--eval-data", batch, "--json").out
        expected = json.loads(reference[reference.index("{\n"):])["eval"][0]["loss"]
        self.assertAlmostEqual(inEvalMode, expected, delta=1e-3 * expected)
        self.assertNotAlmostEqual(inEvalMode, losses[-1], delta=1e-3 * expected)
        self.assertEqual(losses[5], losses[6])  # with and without a stop before it
        state = torch.load("example.pipe.state.pt")
        torch.jit.load(model).load_state_dict(state)  # the author's model takes it
        # And so does his file.
        self.pipec(0, "pipe-merge", "example.pipe", "--state", "example.pipe.state.pt", "--into", model, "-o", "trained.pt", "--force",
                   saying=["replaced", "wrote trained.pt"])
        trained = torch.jit.load("trained.pt")
        self.assertTrue(trained.training)
        for name, value in trained.state_dict().items():
            self.sameBits(state[name], value, name)
        self.assertEqual(trained.head.weight.data_ptr(), trained.words.weight.data_ptr())
        self.pipec(0, "pipe-merge", "example.pipe", "--into", model, "-o", "same.pt", "--force")
        self.sameBits(dict(torch.jit.load(model).state_dict()), dict(torch.jit.load("same.pt").state_dict()))
        self.refused(USAGE, "trained.pt: exists already", "pipe-merge", "example.pipe", "--into", model, "-o", "trained.pt")
        self.refused(USAGE, "--state: expected --into with it", "pipe-merge", "example.pipe", "--state", "example.pipe.state.pt", "-o", "other.pt")
        torch.save({**state, "head.weight": state["words.weight"] + 1}, "untied.pt")
        self.refused(USAGE, "head.weight and words.weight: expected equal values, for the model has one tensor for both, got different ones", "pipe-merge",
                     "--state", "untied.pt", "--into", model, "-o", "other.pt")
        lacking = {name: value for name, value in state.items() if name != "layers.0.wide.bias"}
        torch.save(lacking, "lacking.pt")
        self.refused(USAGE, "lacking.pt: expected a value for layers.0.wide.bias, which example.pipe uses, got none", "pipe-merge", "example.pipe", "--state",
                     "lacking.pt", "--into", model, "-o", "other.pt")
        self.pipec(0, "pipe-merge", "--state", "lacking.pt", "--into", model, "-o", "other.pt", "--force",
                   saying=[f"warning: 1 tensor of {model} is as in the file: layers.0.wide.bias", "lacking.pt has no values for them"])
        other, _ = training_models.save("mlp")
        self.refused(USAGE, "mlp.pt: expected", "pipe-merge", "example.pipe", "--into", other, "--force",
                     "-o", "other.pt")


if __name__ == "__main__":
    e2e.main()

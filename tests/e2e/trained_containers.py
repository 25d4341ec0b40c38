"""trained_containers.py: parameters that forward reads in lists, tuples and dicts of attributes train as PyTorch trains them: gradients, weights, --freeze.

What else holds a trained tensor is refused, with what it is and what to do. Gradients of lists and optional tensors go from stage to stage.
"""
import json
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

UNSUPPORTED = 4
WIDTH = 8


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH, WIDTH))


class InTuple(Base):
    held: Tuple[Tensor, Tensor, int]

    def __init__(self):
        super().__init__()
        self.held = (self.first, self.second, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x) @ self.held[0])
        return mse(self.b(x) @ self.held[1] * self.held[2])


class InListOfLists(Base):
    """A bias that is read by its own name, too."""

    held: List[List[Tensor]]

    def __init__(self):
        super().__init__()
        self.held = [[self.first], [self.second, self.a.bias]]

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x) @ self.held[0][0] + self.held[1][1])
        return mse(self.b(x) @ self.held[1][0])


class InListOfTuples(Base):
    held: List[Tuple[Tensor, Tensor]]

    def __init__(self):
        super().__init__()
        self.held = [(self.a.weight, self.a.bias), (self.b.weight, self.b.bias)]

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x @ self.first)
        for weight, bias in self.held:
            x = torch.tanh(functional.linear(x, weight, bias))
        return mse(x @ self.second)


class InTupleOfLists(Base):
    held: Tuple[List[Tensor], Tensor]

    def __init__(self):
        super().__init__()
        self.held = ([self.a.weight, self.first], self.second)

    def forward(self, x: Tensor) -> Tensor:
        layers, last = self.held
        for weight in layers:
            x = torch.tanh(x @ weight)
        return mse(self.b(x) @ last)


class InDict(Base):
    held: Dict[str, List[Tensor]]

    def __init__(self):
        super().__init__()
        self.held = {"layers": [self.first, self.second], "biases": [self.a.bias]}

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x @ self.held["layers"][0] + self.held["biases"][0])
        return mse(self.b(x) @ self.held["layers"][1])


class Scaled(NamedTuple):
    weight: Tensor
    scale: float


class InNamedTuple(Base):
    held: Scaled

    def __init__(self):
        super().__init__()
        self.held = Scaled(self.first, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x) @ self.held.weight * self.held.scale)
        return mse(self.b(x) @ self.second)


class InListWithNone(Base):
    held: List[Optional[Tensor]]

    def __init__(self):
        super().__init__()
        self.held = [self.first, None]

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.held[0], self.held[1]
        x = torch.tanh(self.a(x))
        if weight is not None:
            x = x @ weight
        if bias is not None:
            x = x + bias
        return mse(self.b(x) @ self.second)


class WithBuffer(Base):
    """A tuple of a parameter and a buffer."""

    held: Tuple[Tensor, Tensor]

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))
        self.held = (self.first, self.scale)

    def forward(self, x: Tensor) -> Tensor:
        weight, scale = self.held
        return mse(self.b(torch.tanh(self.a(x) @ weight * scale)) @ self.second)


class Branches(nn.Module):
    """Stages send what a branch of the data makes: a list of one tensor or two, a tensor or None."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        kept: List[Tensor] = [self.a(x)]
        extra: Optional[Tensor] = None
        if bool(x.sum() > 0):
            kept.append(torch.tanh(self.b(x)))
        else:
            extra = torch.sin(self.b(x))
        y = torch.tanh(self.c(x))
        for one in kept:
            y = y + torch.sin(one)
        y = self.d(y)
        if extra is not None:
            y = y * extra
        return mse(y)


TRAINED = [InTuple, InListOfLists, InListOfTuples, InTupleOfLists, InDict, InNamedTuple, InListWithNone, WithBuffer]


class Nameless(Base):
    """Trained tensors of a tuple only."""

    held: Tuple[Tensor, Tensor]

    def __init__(self):
        super().__init__()
        self.held = (self.first, torch.randn(WIDTH, WIDTH, requires_grad=True))

    def forward(self, x: Tensor) -> Tensor:
        return mse(self.b(torch.tanh(self.a(x) @ self.held[0])) @ self.held[1])


class Mixed(Base):
    """A parameter beside a tensor that nothing else holds."""

    held: List[Tensor]

    def __init__(self):
        super().__init__()
        self.held = [self.first, torch.randn(WIDTH, WIDTH)]

    def forward(self, x: Tensor) -> Tensor:
        return mse(self.b(torch.tanh(self.a(x) @ self.held[0])) @ self.held[1])


class MixedDict(Base):
    held: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.held = {"weight": self.first, "scale": torch.randn(WIDTH, WIDTH)}

    def forward(self, x: Tensor) -> Tensor:
        return mse(self.b(torch.tanh(self.a(x) @ self.held["weight"])) @ self.held["scale"])


@torch.jit.script
class Holder:
    def __init__(self, bias: Tensor):
        self.bias = bias


class InObject(Base):
    def __init__(self):
        super().__init__()
        self.held = Holder(self.a.bias)

    def forward(self, x: Tensor) -> Tensor:
        return mse(self.b(torch.tanh(self.a(x))) + self.held.bias)


class Twin(Base):
    """Another tensor of a parameter's memory: PyTorch gives each of the two its own gradient."""

    held: List[Tensor]

    def __init__(self):
        super().__init__()
        self.held = [nn.Parameter(self.first.data)]

    def forward(self, x: Tensor) -> Tensor:
        return mse(self.b(torch.tanh(self.a(x) @ self.held[0])) @ self.first)


NO_PARAMETER = "with a trained tensor that is no parameter\nhelp: make it a parameter of a module and use that in forward, or turn its requires_grad off"
REFUSED = {
    Nameless: f"--train: held is a Tuple {NO_PARAMETER}",
    Mixed: "--train: held is a List with the parameter first in it\nhelp: take it out of held, and use first in forward",
    MixedDict: "--train: held is a Dict with the parameter first in it\nhelp: take it out of held, and use first in forward",
    InObject: "--train: held is an object of class Holder with the parameter a.bias in it\nhelp: take it out of held, and use a.bias in forward",
    Twin: "--train: first and held are different tensors of one memory, and at least one of them is trained",
}


def inPython(path, x, parts, steps, frozen):
    """Gradients of the last step, and the state after it."""
    torch.set_num_threads(1)
    model = torch.jit.load(path).train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1, momentum=0.9)
    with torch.jit.optimized_execution(False):
        for _ in range(steps):
            optimizer.zero_grad()
            for piece in x.tensor_split(parts):
                model(piece).backward(torch.tensor(len(piece) / len(x)))
            gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
            optimizer.step()
    return gradients, dict(model.state_dict())


class TrainedContainers(e2e.Case):
    def saved(self, make):
        torch.manual_seed(0)
        torch.jit.script(make()).save("m.pt")
        torch.save((torch.randn(4, WIDTH),), "inputs.pt")
        torch.save((torch.randn(10, WIDTH),), "batch.pt")
        return ["pipe-compile", "m.pt", "--train", "--inputs", "inputs.pt", "--stages", 2, "--cost", "analytic", "-o", "m.pipe", "--force"]

    def sameNamesAndBits(self, expected, actual, what):
        self.assertEqual(set(expected), set(actual), what)
        self.sameBits(expected, {name: actual[name] for name in expected}, what)

    def trains(self, what, *frozen):
        gradients, state = inPython("m.pt", torch.load("batch.pt")[0], 2, 2, frozen)
        self.pipec(0, "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", 2, "--steps", 2, "--optimizer", "sgd,lr=0.1,momentum=0.9",
                   *(["--freeze", ",".join(frozen)] if frozen else []), "--emit-grads", "grads.pt", "--output", "state.pt", "--force")
        self.sameNamesAndBits(gradients, torch.load("grads.pt"), f"gradients of {what}")
        self.sameNamesAndBits(state, torch.load("state.pt"), f"state of {what}")
        return gradients

    def testTheyTrainAsInPython(self):
        for make in TRAINED:
            with self.subTest(model=make.__name__):
                report = json.loads(self.pipec(0, *self.saved(make), "--json").out)
                attributes = [attribute["name"] for stage in e2e.plan("m.pipe")["stages"] for attribute in stage["attributes"]]
                self.assertNotIn("held", attributes)
                for what in ("m.pt", "m.pipe"):
                    gradients = self.trains(what)
                    self.assertNotIn("first", self.trains(what, "first"))
                self.assertIn("first", gradients)
                compared = re.search(r"the loss and (\d+) gradients have the same bits", " ".join(report["tested"]))
                self.assertEqual(int(compared[1]), len(gradients), report["tested"])
                self.pipec(0, "pipe-check", "m.pipe", "--against", "m.pt")

    def testContainersBetweenStages(self):
        """Micro-batches of other sizes that take other branches, so a message has another number of tensors, or none."""
        self.saved(Branches)
        parts = [torch.rand(3, WIDTH), -torch.rand(2, WIDTH), torch.rand(2, WIDTH)]
        torch.save((parts[0],), "inputs.pt")
        torch.save((torch.cat(parts),), "batch.pt")
        self.assertEqual([len(part) for part in torch.cat(parts).tensor_split(3)], [3, 2, 2])
        plan = self.compiled("m.pt", "m.pipe", "--train", "--inputs", "inputs.pt", "--at", "c,d", "--cost", "analytic", "--schedule", "zb-h1")
        sent = {channel["type"]: channel["tensor"] for channel in plan["channels"]}
        for type in ("List[Tensor]", "Optional[Tensor]"):
            self.assertIn(type, sent)
            self.assertIsNone(sent[type], "no flag says whether gradients come back")

        def trained(what, *options):
            self.pipec(0, "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", 3, "--threads", 1, "--steps", 2, "--optimizer",
                       "sgd,lr=0.1,momentum=0.9", *options, "--emit-grads", "grads.pt", "--output", "state.pt", "--force")
            return torch.load("grads.pt"), torch.load("state.pt")

        gradients, state = trained("m.pt")
        self.assertEqual(len(gradients), 8)
        self.assertTrue(all(gradient.count_nonzero() for gradient in gradients.values()))
        for schedule in ("1f1b", "zb-h1"):
            with self.subTest(schedule=schedule):
                inStages = trained("m.pipe", "--schedule", schedule)
                self.sameNamesAndBits(gradients, inStages[0], "gradients")
                self.sameNamesAndBits(state, inStages[1], "state")

    def testWhatIsRefused(self):
        for make, message in REFUSED.items():
            with self.subTest(model=make.__name__):
                self.refused(UNSUPPORTED, message, *self.saved(make))


if __name__ == "__main__":
    e2e.main()

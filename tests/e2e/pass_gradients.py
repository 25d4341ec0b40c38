"""pass_gradients.py [PASS...]: every pass keeps the bits of gradients.

For each pass a program that it rewrites, in training mode. The compile with --train shows by --dump-ir that the pass changed the program, and compares every
gradient of the stages with PyTorch's of the unsplit program, with whole and with split backwards. A pass of `pipe-opt --list-passes` without a row fails.
"""
import json
import re
import sys
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

WIDTH = 8


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


def pipe_split():
    pass


class Layers(nn.Module):
    """Three layers; the programs below differ in what they do between them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x)) + x


class Calls(Layers):
    """Modules in modules, a part without gradients, a forked call."""

    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        later = torch.jit.fork(self.block, x)
        with torch.no_grad():
            fixed = self.b(x) * 0.5
        return mse(self.c(self.block(x) + fixed) + torch.jit.wait(later))


class Marked(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        pipe_split()
        x = torch.tanh(self.b(x)) * x
        pipe_split()
        return mse(self.c(x) + x)


class State(Layers):
    """Buffers, a written counter, a constant, a frozen weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.b.weight.requires_grad_(False)
        self.calls, self.factor = 0, 0.75

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x)) - self.mean
        self.mean = self.mean * 0.9 + y.detach().mean(0) * 0.1
        self.calls = self.calls + 1
        return mse(self.c(torch.tanh(self.b(y) * self.factor)) * self.calls)


class Recurrent(Layers):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y, state = self.lstm(self.a(x).unsqueeze(1))
        return mse(self.c(self.b(y.squeeze(1)) + state[0][0]))


class Results(Layers):
    """The loss in a dict in a tuple."""

    def forward(self, x: Tensor) -> Tuple[Dict[str, Tensor], Tensor]:
        y = torch.tanh(self.b(torch.relu(self.a(x))))
        return {"loss": mse(self.c(y)), "y": y}, y + 1


class Folded(Layers):
    """Branches on types, options and ranks."""

    def __init__(self):
        super().__init__()
        self.double = True

    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        x = torch.tanh(self.a(x))
        if bias is not None:
            x = x + bias
        if self.double:
            x = x * 2 + self.b(x)
        if x.dim() > 3:
            x = x.flatten(2)
        return mse(self.c(x) / (1 + 2))


class Tuples(Layers):
    def pair(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return torch.tanh(self.a(x)), torch.sin(x)

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.pair(x)
        both = (self.b(y), z)
        return mse(self.c(both[0] * both[1]) + both[0])


class Rounds(Layers):
    """One weight in every round of a loop whose length is known."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        for i in range(3):
            x = x + torch.tanh(self.b(x)) * (0.5 + i)
        return mse(self.c(x))


class Lists(Layers):
    """A list that is filled and emptied."""

    def forward(self, x: Tensor) -> Tensor:
        kept: List[Tensor] = []
        x = torch.tanh(self.a(x))
        kept.append(x)
        x = torch.tanh(self.b(x))
        kept.append(x)
        last = kept.pop()
        return mse(self.c(torch.cat([last, kept[0], x], 0)))


class Changed(Layers):
    """A list that only some runs change."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        kept = [x, self.b(x)]
        if bool(x.sum() > 1000):
            kept.append(x * 2)
        kept[0] = kept[1] * x
        return mse(self.c(torch.stack(kept).sum(0) + kept[0]))


class Sizes(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) / x.size(1)
        z = torch.tanh(self.b(y)) * x.size(1)
        return (self.c(z + y) ** 2).sum() / (x.size(0) * x.size(1))


class InPlace(Layers):
    """Activations, sums and slices that are written in place, also through views."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        y.relu_()
        z = self.b(y)
        z.mul_(0.5).add_(y)
        half = z[:, : z.size(1) // 2]
        half.add_(1.0)
        z[:, 0] = y[:, 1]
        return mse(self.c(z * y))


class Parts(Layers):
    """What reads a tensor whose parts were written gives it a gradient of other strides; behind a write it is contiguous."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, x * 0.5, x + 1.0])
        y = self.a(x)
        y[:, 0] = 0.5
        filled = y.new_zeros(y.size(0), 2, y.size(1))
        filled[:, 0] = functional.silu(y)
        z = self.b(y)
        z[:, 1:5] = y[:, :4]
        filled[:, 1] = functional.silu(z)
        return mse(self.c(functional.silu(z.t()).t())) + mse(torch.tanh(y.t()).contiguous()) + mse(filled.flatten(1))


class Complex(Layers):
    """A part of a spectrum is written in place: the pure form has no derivative for complex numbers, so the write stays."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.fft.rfft(self.a(x))
        mixed = torch.zeros_like(y)
        mixed[:, :2] = y[:, :2] * 0.5
        mixed[:, 2] = y[:, 3]
        return mse(self.c(self.b(x) + torch.fft.irfft(mixed, n=x.size(1))))


class Spectrum(Layers):
    """The layer of a Fourier neural operator: the kept part of a spectrum in new memory, whose dtype an argument says."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(3, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.fft.rfft(self.a(x))
        kept = torch.zeros(x.size(0), x.size(1) // 2 + 1, dtype=torch.cfloat)
        kept[:, :3] = y[:, :3] * self.mix
        low = torch.zeros(x.size(0), x.size(1) // 2 + 1, dtype=y.dtype)
        low[:, 0] = y[:, 1]
        low[:, -2:] = y[:, :2]
        new = y.new_zeros(x.size(0), x.size(1) // 2 + 1)
        new[:, 1:4:2] = y[:, 1:3]
        new[0] = y[1]
        filled = torch.full([x.size(0), x.size(1) // 2 + 1], 0.5, dtype=torch.complex64)
        filled += y
        filled[:, 4].zero_()
        return mse(self.c(self.b(x) + torch.fft.irfft(kept + low + new + filled, n=x.size(1))))


class Corners(Layers):
    """The same in two dimensions, with two corners of the spectrum and a convolution past it."""

    def __init__(self):
        super().__init__()
        self.low, self.high = (nn.Parameter(torch.randn(2, 2, dtype=torch.cfloat)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        image = self.a(x).unsqueeze(1) * x.unsqueeze(2)
        y = torch.fft.rfft2(image)
        kept = torch.zeros(x.size(0), image.size(1), image.size(2) // 2 + 1, dtype=torch.cfloat)
        kept[:, :2, :2] = y[:, :2, :2] * self.low
        kept[:, -2:, :2] = y[:, -2:, :2] * self.high
        return mse(self.c(self.b(x) + torch.fft.irfft2(kept, s=[x.size(1), x.size(1)]).sum(1)))


class Torn(Layers):
    """State that is read and written, with a cut asked for between."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a(x) * self.scale.clone())
        z = self.b(y)
        self.scale.mul_(1.25)
        return mse(self.c(z + y))


class Dead(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        unused = self.b(x) * 3
        if x.size(0) > 1000:
            unused = unused + 1
        return mse(self.c(x) + self.b(x))


class Flagged(Layers):
    """A large branch on an argument."""

    def forward(self, x: Tensor, other: bool = False) -> Tensor:
        x = self.a(x)
        if other:
            y = torch.tanh(torch.sin(x) * 2)
            y = torch.cos(self.b(y)) * x
            y = torch.sin(y + 1) * y
            y = torch.tanh(self.c(y))
        else:
            y = torch.sin(torch.tanh(x) * 2)
            y = torch.sigmoid(self.c(y)) * x
            y = torch.cos(y + 1) * y
            y = torch.sin(self.b(y))
        return mse(y + x)


class Tied(Layers):
    """One weight in several stages, a size of an earlier value in a later stage, a value with several readers."""

    def __init__(self):
        super().__init__()
        self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        first = torch.tanh(self.a(x))
        y = torch.sin(self.b(first)) + first
        rows = first.size(0) * 2 + 1
        return (self.c(y) ** 2).sum() / rows + mse(first)


AT = ["--at", "b,c"]
# A program for each pass, and how it is cut.
ROWS = {
    "inline": (Calls, AT),
    "resolve-markers": (Marked, []),
    "lower-attributes": (State, AT),
    "open-weight-lists": (Recurrent, AT),
    "split-outputs": (Results, [*AT, "--loss-output", "0.loss"]),
    "fold-constants": (Folded, AT),
    "lower-tuples": (Tuples, AT),
    "unroll-loops": (Rounds, ["--stages", 3]),
    "remove-list-mutation": (Lists, AT),
    "functionalise-containers": (Changed, AT),
    "cse": (Sizes, AT),
    "remove-inplace": (InPlace, AT),
    "dead-code": (Dead, AT),
    "split-branches": (Flagged, ["--stages", 3]),
    "choose-cuts": (Tied, AT),
    "legalise-cuts": (Torn, [*AT, "--nearest"]),
    "rematerialise": (Tied, AT),
    "insert-transfers": (Tied, AT),
    "resolve-ties": (Tied, [*AT, "--tied", "replicate"]),
}
REWRITES_NOTHING = {"print-alias", "simplify"}  # prints; a group of others


# More programs that a pass rewrites.
ALSO = {"remove-inplace": [(Parts, AT)]}
# Programs that a pass must leave as they are, in part or all.
LEFT = {"remove-inplace": [(Complex, AT), (Spectrum, AT), (Corners, AT)]}


class PassGradients(e2e.Case):
    def testEveryPassHasARow(self):
        passes = set(re.findall(r"^(\S+)", self.pipec(0, "pipe-opt", "--list-passes").out, re.MULTILINE))
        self.assertEqual(passes - REWRITES_NOTHING, set(ROWS), "passes, and rows of this test")

    def testGradientsKeepTheirBits(self):
        for name in e2e.NAMES or ROWS:
            with self.subTest(**{"pass": name}):
                for program, options in [ROWS[name], *ALSO.get(name, [])]:
                    self.check(name, program, options)
                for program, options in LEFT.get(name, []):
                    self.check(None, program, options)

    def check(self, name, program, options):
        torch.manual_seed(0)
        torch.jit.script(program()).save("model.pt")
        torch.save((torch.randn(4, WIDTH),), "inputs.pt")
        command = ["model.pt", "--train", "--inputs", "inputs.pt", *options, "--dump-ir", "dumps", "--force", "-o", "out.pipe", "--json"]
        tested = " ".join(json.loads(self.pipec(0, "pipe-compile", *command).out)["tested"])
        changed = {re.sub(r"^\d+-|\.ir$", "", file) for file in e2e.files("dumps")}
        if name:
            self.assertIn(name, changed, "passes that changed the program")
        compared = re.search(r"the loss and (\d+) gradients? have the same bits", tested)
        self.assertTrue(compared, tested)
        self.assertEqual(int(compared[1]), self.gradients(options), "gradients that were compared, and that PyTorch computes")
        print(f"  {name or 'left as it is'}: {compared[1]} gradients", file=sys.stderr)

    def gradients(self, options):
        model = torch.jit.load("model.pt").train()
        with torch.jit.optimized_execution(False):
            result = model(*torch.load("inputs.pt"))
        (result[0]["loss"] if "--loss-output" in options else result).backward()
        return sum(parameter.grad is not None for parameter in model.parameters())


if __name__ == "__main__":
    e2e.main()

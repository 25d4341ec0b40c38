"""conjugates.py: complex values whose conjugate is taken when they are read: as what a stage is sent, recomputes from or writes in place as state, their
copies stay conjugates. Gradients and state have the bits of the unsplit model's."""
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import e2e


@torch.jit.script
def pipe_split(x: Tensor) -> Tensor:
    return x


class Weights(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.v = (nn.Parameter(torch.randn(4, 4, dtype=torch.cfloat)) for _ in range(2))
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("kept", torch.zeros(4, dtype=torch.cfloat))


class Sent(Weights):
    """The second stage recomputes from a conjugate, and from the negative view of one."""

    def forward(self, x: Tensor, big: float) -> Tensor:
        f = (x @ self.w).conj()
        f, g = pipe_split(f), f.imag
        self.calls.add_(1)
        return (f @ self.v).real.pow(2).mean() + g.sin().mean()


class Kept(Weights):
    """The state is a conjugate, which the next call writes in place."""

    def forward(self, x: Tensor, big: float) -> Tensor:
        f = pipe_split(x @ self.w)
        self.kept.mul_(0.5)
        g = f + self.kept
        self.kept = g.detach()[0].conj()
        return (g @ self.v).real.pow(2).mean()


class Sometimes(Weights):
    """As Kept, in a branch that the example does not take."""

    def forward(self, x: Tensor, big: float) -> Tensor:
        f = pipe_split(torch.tanh((x @ self.w).real) * (1 + 0j))
        g = f + self.kept
        self.kept.mul_(0.5)
        if big > 0.5:
            self.kept = (x @ self.v).detach()[0].conj()
        h = g @ self.v
        return torch.tanh(h.real).pow(2).mean() + h.imag.pow(2).mean()


class Conjugates(e2e.Case):
    def trained(self, what, *options):
        self.pipec(0, "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", 4, "--emit-grads", "grads.pt", "--output", "state.pt", "--force",
                   *options)
        return torch.load("grads.pt"), dict(sorted(torch.load("state.pt").items()))

    def testCopiesStayConjugates(self):
        torch.manual_seed(6)
        x = torch.randn(8, 4, dtype=torch.cfloat)
        torch.save((x[:2], 0.0), "example.pt")
        torch.save((x, 1.0), "batch.pt")
        Path("table.csv").write_text("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1R0,1B0,1F1,1F2,1R1,1B1,1R2,1B2,1F3,1R3,1B3\n", encoding="utf-8")
        for model in (Sent, Kept, Sometimes):
            torch.jit.script(model().train()).save("m.pt")
            expected = self.trained("m.pt")
            for recompute in ("never", "always"):
                self.compiled("m.pt", "m.pipe", "--train", "--inputs", "example.pt", "--recompute", recompute)
                for schedule in ("1f1b", "zb-h1", "table.csv"):
                    self.sameBits(expected, self.trained("m.pipe", "--schedule", schedule), f"{model.__name__}, recompute {recompute}, {schedule}")


if __name__ == "__main__":
    sys.exit(e2e.main())

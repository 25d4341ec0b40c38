"""repeated_uses.py: a weight that a stage uses several times: by several arguments of one operator, by two names in turns, in a value that is made early
and read late, as a result of the stage, and on ways that the example does not take. Split backwards sum the uses as the unsplit model does: bit for bit.
"""
import torch
from torch import Tensor, nn

import e2e

WIDTH = 8


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


class Layers(nn.Module):
    """The first stage has no gradient of its input, the second has one. Each uses a weight at least three times."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.p, self.q = (nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.4) for _ in range(2))
        self.register_buffer("eye", torch.eye(WIDTH))


class InOneOperator(Layers):
    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x) @ torch.addcmul(self.p, self.p, self.p)
        x = self.b(torch.tanh(x @ self.p))
        x = torch.tanh(x @ (self.q @ self.q)) @ self.q
        return mse(self.c(torch.cat([x, self.q, self.q, self.q])))


class TwoNames(Layers):
    def __init__(self):
        super().__init__()
        self.after, self.before = self.p, self.q
        self.z = self.p

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        for w in (self.z, self.p, self.after, self.p, self.z):
            x = torch.tanh(x @ w)
        x = self.b(x)
        for w in (self.q, self.before, self.q, self.q, self.before):
            x = torch.tanh(x @ w)
        return mse(self.c(x))


class BlockOfTwoNames(Layers):
    def __init__(self):
        super().__init__()
        self.d = self.a

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = torch.tanh(self.a(x))
            x = torch.tanh(self.d(x)) + x
        return mse(self.c(torch.tanh(self.b(x)) @ self.q))


class MadeEarlyReadLate(Layers):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > -1000):
            early = self.p
        else:
            early = self.eye
        x = self.a(x)
        for w in (self.p, self.p):
            x = torch.tanh(x @ w)
        x = self.b(torch.tanh(x @ early))
        if bool(x.sum() > -1000):
            late = self.q
        else:
            late = self.eye
        for w in (self.q, self.q):
            x = torch.tanh(x @ w)
        return mse(self.c(x @ late))


class AsResult(Layers):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > -1000):
            result = self.p
        else:
            result = self.eye
        x = self.a(x)
        for w in (self.p, self.p, self.p):
            x = torch.tanh(x @ w)
        x = self.b(x)
        return mse(self.c(x @ result) + result.sum(0))


class ResultOfAMiddleStage(Layers):
    """A stage that receives gradients uses a weight and hands it on, which is seen in the run only."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.b(self.a(x))
        if bool(x.sum() > -1000):
            result = self.p
        else:
            result = self.eye
        for w in (self.p, self.p):
            x = torch.tanh(x @ w)
        x = self.c(x)
        return mse(x @ result)


class OnlyInTheRun(Layers):
    """The example takes the other branch, and one round of each loop."""

    def forward(self, x: Tensor) -> Tensor:
        rounds = 1 + 2 * int(bool(x.sum() > 0))
        early = self.eye
        if rounds > 1:
            early = self.p
        x = self.a(x)
        done = 0
        while done < rounds:
            x = torch.tanh(x @ early)
            done += 1
        x = self.b(torch.tanh(x @ self.p))
        late = self.q
        done = 0
        while done < rounds:
            x = torch.tanh(x @ late)
            done += 1
        return mse(self.c(x @ self.q))


MODELS = [OnlyInTheRun, InOneOperator, TwoNames, BlockOfTwoNames, MadeEarlyReadLate, AsResult, ResultOfAMiddleStage]


class RepeatedUses(e2e.Case):
    def trained(self, what, *options):
        self.pipec(0, "pipe-run", what, "--train", "--inputs", "batch.pt", "--microbatches", 4, "--steps", 2, "--optimizer", "sgd,lr=0.1",
                   "--emit-grads", "grads.pt", "--output", "state.pt", "--force", *options)
        return tuple(dict(sorted(torch.load(path).items())) for path in ("grads.pt", "state.pt"))

    def testSplitBackwardsSumAsTheModel(self):
        for make in MODELS:
            with self.subTest(model=make.__name__):
                torch.manual_seed(2)
                torch.jit.script(make()).save("m.pt")
                torch.save((-torch.rand(8, WIDTH),), "example.pt")
                torch.save((torch.cat([torch.rand(15, WIDTH), -torch.rand(15, WIDTH)]),), "batch.pt")
                self.pipec(0, "pipe-compile", "m.pt", "--train", "--at", "b,c", "--inputs", "example.pt", "--cost", "analytic", "-o", "m.pipe", "--force")
                whole = [reason for reason in e2e.plan("m.pipe")["training"]["why_whole"] if reason]
                self.assertEqual(whole, [], "stages that are not split")
                gradients, state = self.trained("m.pt")
                for schedule in ("1f1b", "zb-h1"):
                    found = self.trained("m.pipe", "--schedule", schedule)
                    self.sameBits(gradients, found[0], f"gradients under {schedule}")
                    self.sameBits(state, found[1], f"state under {schedule}")


if __name__ == "__main__":
    e2e.main()

"""Models that mark their own stages, in every form that a marker can have. All compute the same from float32[N,32]: two layers, a
third, a fourth, with a boundary between each. Each form is a function, because it has a `pipe_split` of its own."""
from typing import Tuple

import torch
from torch import Tensor, nn


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(32, 32) for _ in range(4))


def scriptedWithTensor():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = pipe_split(self.b(torch.relu(self.a(x))))
            x = pipe_split(torch.tanh(self.c(x)))
            return self.d(x)

    return torch.jit.script(Model())


def scriptedWithoutArgument():
    @torch.jit.script
    def pipe_split() -> None:
        pass

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.b(torch.relu(self.a(x)))
            pipe_split()
            x = torch.tanh(self.c(x))
            pipe_split()
            return self.d(x)

    return torch.jit.script(Model())


def plainFunction():
    def pipe_split(x):
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = pipe_split(self.b(torch.relu(self.a(x))))
            x = pipe_split(torch.tanh(self.c(x)))
            return self.d(x)

    return torch.jit.script(Model())


def resultNotUsed():
    """The marked tensor goes on under its old name."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.b(torch.relu(self.a(x)))
            pipe_split(x)
            x = torch.tanh(self.c(x))
            pipe_split(x)
            return self.d(x)

    return torch.jit.script(Model())


def traced():
    """A trace keeps the call of a scripted function."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x):
            x = pipe_split(self.b(torch.relu(self.a(x))))
            x = pipe_split(torch.tanh(self.c(x)))
            return self.d(x)

    return torch.jit.trace(Model(), torch.ones(2, 32))


def insideSubmodules():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.b, self.c = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.c(pipe_split(self.b(torch.relu(x)))))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            return pipe_split(self.inner(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.outer, self.d = nn.Linear(32, 32), Outer(), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return self.d(self.outer(self.a(x)))

    return torch.jit.script(Model())


def insideConstantLoop():
    """A loop over a ModuleList has no data in it: a marker in it marks every turn."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.d = nn.ModuleList([nn.Linear(32, 32), nn.Linear(32, 32)]), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = pipe_split(torch.relu(layer(x)))
            return self.d(x)

    return torch.jit.script(Model())


def operator():
    """The operator of the library that the caller has loaded."""
    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.ops.pipec.pipe_split(self.b(torch.relu(self.a(x))))
            x = torch.ops.pipec.pipe_split(torch.tanh(self.c(x)))
            return self.d(x)

    return torch.jit.script(Model())


def insideIf():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if bool(x.sum() > 0):
                x = pipe_split(self.b(x))  # the line that the message must name
            return self.d(x)

    return torch.jit.script(Model())


def insideIfAndBehind():
    """A marker in a branch, and one behind it."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if bool(x.sum() > 0):
                x = pipe_split(self.b(x))
            x = pipe_split(torch.tanh(self.c(x)))
            return self.d(x)

    return torch.jit.script(Model())


def insideLoop():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            for _ in range(int(x.abs().sum().item()) % 3):
                x = pipe_split(self.b(x))  # the line that the message must name
            return self.d(x)

    return torch.jit.script(Model())


def insideFirstLoop():
    """Nothing is before the loop, so the nearest place is after it."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor, times: int = 2) -> Tensor:
            for _ in range(times):
                x = pipe_split(self.b(x))
            return self.d(self.c(x))

    return torch.jit.script(Model())


def insideBothWays():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            if bool(x.sum() > 0):
                x = self.c(pipe_split(self.b(x)))
            else:
                x = self.b(pipe_split(self.c(x)))
            return self.d(x)

    return torch.jit.script(Model())


def beforeAndInsideLoop():
    @torch.jit.script
    def pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor, times: int = 2) -> Tensor:
            x = pipe_split(self.a(x))
            for _ in range(times):
                x = pipe_split(self.b(x))
            return self.d(pipe_split(x))

    return torch.jit.script(Model())


def severalTensors():
    """What a marker does not take."""
    @torch.jit.script
    def pipe_split(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return x, y

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            x, y = pipe_split(self.a(x), self.b(x))
            return self.d(x + y)

    return torch.jit.script(Model())


def anotherFunction():
    """Only the last part of the name counts, and all of it: these mark nothing."""
    @torch.jit.script
    def pipe_split_all(x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.script
    def my_pipe_split(x: torch.Tensor) -> torch.Tensor:
        return x

    class Model(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return self.d(my_pipe_split(self.b(pipe_split_all(self.a(x)))))

    return torch.jit.script(Model())

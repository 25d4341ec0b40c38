"""Makes an artifact to keep: keep.py NAME DIRECTORY, with the pipe-compile in $PIPEC_BIN. See README.md."""
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 24), nn.Linear(24, 24), nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.tanh(self.b(torch.relu(self.a(x)))))


class Tied(nn.Module):
    """The embedding is also the output head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids: Tensor, scale: int = 3) -> Dict[str, Tensor]:
        embedded = self.embedding(ids)
        self.calls.add_(1)
        hidden = torch.tanh(self.first(embedded))
        mixed = self.second(hidden) * scale + embedded
        return {"logits": functional.linear(mixed, self.embedding.weight), "hidden": hidden}


class Scored(NamedTuple):
    score: Tensor
    hidden: Tensor


class Residual(nn.Module):
    """Adds in place to what it has just made, asks for a rank, drops nothing."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Scored:
        hidden = torch.relu(self.first(x))
        hidden += x
        hidden = self.drop(self.second(hidden))
        if hidden.dim() == 2:
            hidden += x
        return Scored(self.head(hidden), hidden)


class Trained(nn.Module):
    """Returns its loss. One weight in the first and the last stage, batch norm, another formula in eval mode."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.first, self.norm, self.second = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        embedded = self.embedding(ids)
        hidden = torch.tanh(self.second(torch.relu(self.norm(self.first(embedded))))) + embedded
        if self.training:
            hidden = hidden * 0.9
        return functional.cross_entropy(functional.linear(hidden, self.embedding.weight), target)


class Parts(nn.Module):
    """An argument of which each micro-batch gets one part cut and another whole."""

    def __init__(self):
        super().__init__()
        self.trained = Trained()

    def forward(self, batch: Dict[str, Tensor], target: Tensor) -> Tensor:
        return self.trained(batch["ids"], target) * batch["factors"].prod()


class Whole(nn.Module):
    """An argument that each micro-batch gets whole."""

    def __init__(self):
        super().__init__()
        self.trained = Trained()

    def forward(self, ids: Tensor, factors: Tensor, target: Tensor) -> Tensor:
        return self.trained(ids, target) * factors.prod()


KEPT = {"v1-mlp": (Mlp, lambda: (torch.randn(6, 16),), "b,c", []),
        "v1-tied": (Tied, lambda: (torch.randint(40, (6, 5)),), "first,second", ["--tied", "transmit"]),
        "v1.1-residual": (Residual, lambda: (torch.randn(6, 16),), "second,head", ["--keep-eval", "drop"]),
        "v1.2-residual": (Residual, lambda: (torch.randn(6, 16),), "second,head", ["--keep-eval", "drop"])}
TRAINED = {"v1.3-training": (Trained, lambda: (torch.randint(12, (6,)), torch.randint(12, (6,))), "first,second", []),
           "v1.4-training": (Parts, lambda: ({"ids": torch.randint(12, (6,)), "factors": torch.rand(3) + 1}, torch.randint(12, (6,))),
                             "trained.first,trained.second", ["--batch-dim", "batch.factors=none"]),
           "v1.5-training": (Whole, lambda: (torch.randint(12, (6,)), torch.rand(3) + 1, torch.randint(12, (6,))), "trained.first,trained.second",
                             ["--batch-dim", "factors=none"]),
           "v1.6-training": (Whole, lambda: (torch.randint(12, (6,)), torch.rand(3) + 1, torch.randint(12, (6,))), "trained.first,trained.second",
                             ["--batch-dim", "factors=none"])}


def compiled(folder, cuts, options):
    subprocess.run([os.path.join(os.environ["PIPEC_BIN"], "pipe-compile"), str(folder / "model.pt"), "--at", cuts, "--inputs", str(folder / "inputs.pt"),
                    *options, "-o", str(folder / "model.pipe")], check=True)


def halves(value):
    """What two micro-batches get of a value of the batch: a half of each tensor of 6 samples, others whole."""
    if isinstance(value, dict):
        return [dict(zip(value, parts)) for parts in zip(*map(halves, value.values()))]
    return value.tensor_split(2) if len(value) == 6 else [value, value]


def keepTraining(name, folder):
    """expected.pt: the gradients of a step of two micro-batches, the state after SGD with lr=0.1, and the loss in eval mode behind it."""
    build, inputs, cuts, options = TRAINED[name]
    values = inputs()
    torch.jit.script(build()).save(str(folder / "model.pt"))
    torch.save(values, folder / "inputs.pt")
    torch.set_num_threads(1)
    model = torch.jit.load(str(folder / "model.pt")).train()
    with torch.jit.optimized_execution(False):
        for part in zip(*map(halves, values)):
            model(*part).backward(torch.tensor(0.5))
        gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        torch.optim.SGD(model.parameters(), 0.1).step()
        with torch.no_grad():
            loss = model.eval()(*values).item()
    torch.save({"gradients": gradients, "state": model.state_dict(), "eval_loss": loss}, folder / "expected.pt")
    compiled(folder, cuts, ["--train", "--evaluation", "--cost", "analytic", *options])


def main(name, directory):
    if name in TRAINED:
        folder = Path(directory) / name
        folder.mkdir()
        torch.manual_seed(1)
        return keepTraining(name, folder)
    build, inputs, cuts, options = KEPT[name]
    folder = Path(directory) / name
    folder.mkdir()  # what is kept is not made again
    torch.manual_seed(1)
    values = inputs()
    model = torch.jit.script(build())
    model.save(str(folder / "model.pt"))
    torch.save(values, folder / "inputs.pt")
    torch.set_num_threads(1)  # as every comparison runs
    loaded = torch.jit.load(str(folder / "model.pt"))
    if "--keep-eval" in options:
        getattr(loaded, options[1]).eval()
    with torch.no_grad(), torch.jit.optimized_execution(False):
        expected = loaded(*values)
    torch.save(tuple(expected) if isinstance(expected, tuple) else expected, folder / "expected.pt")
    compiled(folder, cuts, options)
    plan = json.loads((folder / "model.pipe" / "plan.json").read_text())
    case = {"schema_version": 1, "inputs": "inputs.pt", "outputs": "expected.pt", "microbatches": 2, "threads": 1, "seed": 0, "rtol": None, "atol": None,
            **{key: plan[key] for key in ("source_digest", "tool_version", "torch_version")}}
    (folder / "case.json").write_text(json.dumps(case, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

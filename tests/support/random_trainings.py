"""Random models that return a loss, with what backwards may trip over. The same seed gives the same model.

    random_trainings.py SEED [DIRECTORY]     writes training_SEED.py (the source), training_SEED.pt and training_SEED.inputs.pt
"""
import importlib.util
import random
import sys
from pathlib import Path

import torch

WIDTH, BATCH = 6, 7
HEADER = """from typing import List, Optional, Tuple
import torch
from torch import Tensor, nn


def mse(x: Tensor) -> Tensor:
    return (x * x).mean()


"""

# Statements: {v} is the new value, {a} and {b} are earlier ones, {l} a linear layer, {n} a batch norm, {s} state, {k} a number of its own.
KINDS = {
    "layer": ["{v} = torch.tanh(self.{l}({a}))", "{v} = torch.relu(self.{l}({a}))"],
    "dropout": ["{v} = self.drop({a})"],
    "batch norm": ["{v} = self.{n}({a})"],
    "skip": ["{v} = {a} + {b}", "{v} = {a} * {b}.sigmoid()"],
    "in place": ["{v} = {a} * 1.5\n{v}.mul_(0.5).add_({b})", "{v} = self.{l}({a})\n{v}.relu_()"],
    "view": ["{v} = torch.cat([{a}[:, :3], {b}[:, 3:].flip(1)], 1)", "{v} = {a} + 0.5\n{v}[:, :2].mul_(0.25)", "{v} = {a}.view(-1, 2, 3).transpose(1, 2).reshape(-1, 6)"],
    "state without gradients": ["with torch.no_grad():\n    self.{s}.mul_(0.9).add_({a}.mean(0), alpha=0.1)\n{v} = {b} - self.{s}",
                                "with torch.no_grad():\n    self.{s} = 0.9 * self.{s} + 0.1 * {a}.mean(0)\n{v} = {b} * (self.{s} + 1)",
                                "{v} = {b} * (self.{s} + 1)\nself.{s} = self.{s} * 0.5 + {a}.detach().mean(0)"],
    "no gradients": ["with torch.no_grad():\n    w{k} = torch.tanh(self.{l}({a}))\n    w{k} = w{k} * {b}\n{v} = {b} + w{k}",
                     "{v} = {a} * 2.0\nwith torch.no_grad():\n    {v}.clamp_(-1.0, 1.0)", "with torch.no_grad():\n    w{k} = {a}\n{v} = w{k} + {b}.detach()"],
    "loop": ["{v} = {a}\nfor i{k} in range(3):\n    {v} = {v} * 0.5 + torch.sin(self.{l}({v}))",
             "{v} = {a}\nj{k} = 0\nwhile j{k} < 1 + int(bool({a}.sum() > 0)):\n    {v} = torch.sin(self.{l}({v}))\n    j{k} += 1"],
    "branch": ["if bool({a}.sum() > 0):\n    {v} = self.{l}({a})\nelse:\n    {v} = {b}.sin()"],
    "part written": ["{v} = {a} * 1.0\nif bool({b}.sum() > 0):\n    {v}[:, :3] = self.{l}({b})[:, :3]",
                     "{v} = torch.tanh(self.{l}({a})) * 1.0\nif bool({b}.sum() > 0):\n    {v}[:, 2:].mul_(self.{l}.bias[2:])\nelse:\n    {v}[:, 1] += {b}[:, 2]"],
    "list": ["p{k}: List[Tensor] = []\nfor i{k} in range(2):\n    p{k}.append({a} * (i{k} + 0.5))\np{k}.append({b})\n{v} = torch.stack(p{k}).sum(0)"],
    "optional": ["o{k}: Optional[Tensor] = None\nif x.size(1) > 3:\n    o{k} = {a}\n{v} = {b}\nif o{k} is not None:\n    {v} = {b} + 0.5 * o{k}"],
}
OF_MODEL = ["shared weight", "frozen", "several losses", "loss among results"]


class Writer:
    def __init__(self, seed):
        self.rng, self.values, self.kinds = random.Random(seed), ["x"], set()
        self.layers, self.norms, self.states = 0, 0, 0

    def name(self, kind, fresh):
        """A new attribute, or sometimes an earlier one."""
        count = getattr(self, kind)
        if not fresh and count and self.rng.random() < 0.15:
            self.kinds.add("shared weight")
            return f"{kind[0]}{self.rng.randrange(count)}"
        setattr(self, kind, count + 1)
        return f"{kind[0]}{count}"

    def statement(self, k):
        kind = self.rng.choice([*KINDS, "layer", "layer"])
        self.kinds.add(kind)
        text = self.rng.choice(KINDS[kind])
        a, b = self.values[-1], self.rng.choice(self.values)
        names = {"v": f"v{k}", "k": k, "a": a, "b": b}
        for letter, attribute in (("l", "layers"), ("n", "norms"), ("s", "states")):
            if "{" + letter + "}" in text:
                names[letter] = self.name(attribute, letter != "l")
        self.values.append(f"v{k}")
        return text.format(**names).split("\n")

    def source(self):
        body = [f"v0 = self.first(x)"]
        self.values.append("v0")
        for k in range(1, self.rng.randrange(7, 14)):
            body += self.statement(k)
        loss = f"mse(self.last({self.values[-1]}))"
        if self.rng.random() < 0.4:
            self.kinds.add("several losses")
            loss += f" + 0.25 * mse({self.rng.choice(self.values[1:])}.sin())"
        result = "Tensor"
        self.among = self.rng.random() < 0.25
        if self.among:
            self.kinds.add("loss among results")
            loss, result = f"{self.values[-1]}, {loss}", "Tuple[Tensor, Tensor]"
        self.frozen = [f"l{i}" for i in range(self.layers) if self.rng.random() < 0.15]
        if self.frozen:
            self.kinds.add("frozen")
        init = ["self.first, self.last, self.drop = nn.Linear(6, 6), nn.Linear(6, 6), nn.Dropout(0.25)"]
        init += [f"self.l{i} = nn.Linear(6, 6)" for i in range(self.layers)] + [f"self.n{i} = nn.BatchNorm1d(6)" for i in range(self.norms)]
        init += [f'self.register_buffer("s{i}", torch.full((6,), 0.125))' for i in range(self.states)]
        init += [f"self.{name}.requires_grad_(False)" for name in self.frozen]
        lines = ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in init), "",
                 f"    def forward(self, x: Tensor) -> {result}:", *(f"        {line}" for line in body), f"        return {loss}"]
        return HEADER + "\n".join(lines) + "\n"


def write(seed, directory):
    """(path of the model, of its inputs, options of pipe-compile, kinds)"""
    writer = Writer(seed)
    stem = Path(directory) / f"training_{seed}"
    source = stem.with_suffix(".py")
    source.write_text(writer.source())
    spec = importlib.util.spec_from_file_location(stem.name, source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem.name] = module  # TorchScript reads the source of its classes
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    torch.jit.script(module.Model()).save(f"{stem}.pt")
    torch.save((torch.randn(BATCH, WIDTH),), f"{stem}.inputs.pt")
    return f"{stem}.pt", f"{stem}.inputs.pt", ["--loss-output", "1"] if writer.among else [], writer.kinds


if __name__ == "__main__":
    print(write(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "."))

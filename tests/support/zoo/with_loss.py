"""A model with a loss on top, in training mode: what trainings are tested with where a model has no loss of its own.

The loss is the sum over all floating-point results of the mean of their squares, so every result has a gradient.
"""
import copy
import importlib.util
import sys
from pathlib import Path

import torch

SOURCE = """import torch
from typing import *
from torch import Tensor


def square(x: {result}) -> Tensor:
    if x is None:  # a result of training mode only
        return torch.zeros(())
    return (x.float() ** 2).mean()


class WithLoss(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, {signature}) -> Tensor:
        o = self.inner({names})
        return {terms}
"""


def terms(value, path, inner="{}"):
    """The loss of `value`; `inner` is how the source reads a part of a container."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return [f"(torch.view_as_real({path}) ** 2).mean()"]
        return [f"square({path})"] if value.is_floating_point() else []
    if isinstance(value, dict):
        return [term for key, part in value.items() for term in terms(part, f"{inner.format(path)}[{key!r}]", inner)]
    if isinstance(value, (tuple, list)):
        return [term for index, part in enumerate(value) for term in terms(part, f"{inner.format(path)}[{index}]", inner)]
    return []


def with_loss(model, example, directory, name):
    """A scripted module around the loaded `model`. TorchScript reads its source from a file, directory/NAME_loss.py."""
    try:
        return scripted(model, example, directory, name, "Tensor", "{}")
    except RuntimeError as error:
        if "Optional[" not in str(error):
            raise
        return scripted(model, example, directory, name, "Optional[Tensor]", "torch.jit._unwrap_optional({})")


def scripted(model, example, directory, name, result, inner):
    arguments = model.forward.schema.arguments[1:len(example) + 1]
    names = [a.name if a.name.isidentifier() and a.name != "self" else f"a{index}" for index, a in enumerate(arguments)]
    losses = terms(copy.deepcopy(model)(*copy.deepcopy(example)), "o", inner)  # a run may write state, with a gradient that a saved model would want, too
    if not losses:
        raise ValueError("no result is a floating-point tensor")
    path = Path(directory) / f"{name}_loss.py"
    path.write_text(SOURCE.format(signature=", ".join(f"{n}: {a.type.annotation_str}" for n, a in zip(names, arguments)),
                                  names=", ".join(names), terms=" + ".join(losses), result=result), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"{name}_loss", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return torch.jit.script(module.WithLoss(model)).train()


def gradients(model, example):
    """How many tensors get a gradient, by plain PyTorch; an exception where it cannot compute them."""
    with torch.jit.optimized_execution(False):
        loss = model(*copy.deepcopy(example))
        if not loss.requires_grad:
            return 0
        loss.backward()
    found = sum(parameter.grad is not None for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.grad = None
    return found

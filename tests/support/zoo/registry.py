"""The list of models of the zoo, and what each needs to be made."""
from collections import OrderedDict
from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class Entry:
    build: Callable     # () -> (module, inputs): `inputs` makes the tuple of arguments for a batch size
    save: str           # "script" or "trace"
    random: bool        # draws random numbers: plain PyTorch draws others than pipec
    stateful: bool      # writes its buffers or its input: must be loaded afresh before each run


MODELS = OrderedDict()


def model(name, save, random=False, stateful=False):
    """Registers the function that builds a model."""
    def register(build):
        assert name not in MODELS, name
        MODELS[name] = Entry(build, save, random, stateful)
        return build
    return register


def add(name, make, inputs, save="script", train=False, **facts):
    """Registers the model that `make` makes, in eval mode unless told otherwise."""
    model(name, save, **facts)(lambda: (make().train() if train else make().eval(), inputs))


# --- inputs: functions from a batch size to the tuple of arguments ------------------------------------------------------------------
def image(size, channels=3):
    return lambda batch: (torch.randn(batch, channels, size, size),)


def tokens(vocabulary, length):
    return lambda batch: torch.randint(5, vocabulary, (batch, length))


def padding(length):
    """A mask whose last sample is shorter."""
    def make(batch):
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[-1, -3:] = 0
        return mask
    return make


def together(*makers):
    return lambda batch: tuple(maker(batch) for maker in makers)

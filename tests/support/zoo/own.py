"""The zoo's models of our own: networks.py and programs.py with their inputs."""
import torch
from torch import nn, randint, randn

import networks
import programs
from registry import add, image, model


def vector(width):
    return lambda batch: (randn(batch, width),)


def sentences(batch):
    lengths = torch.full((batch,), 12)
    lengths[0] = 9
    return randint(1, 4000, (batch, 12)), lengths, randint(1, 4000, (batch, 10))


def bags(batch):
    rows = (20000, 5000, 40000, 100, 3000, 8000)
    return randn(batch, 13), [randint(0, r, (batch * 3,)) for r in rows], [torch.arange(0, batch * 3, 3) for _ in rows]


def structures(batch):
    def x():
        return randn(batch, 32)
    return (x(), x()), [x(), x()], {"p": x(), "q": x()}, None, 2.0, True


add("own_unet", networks.UNet, image(96))
add("own_amoebanet", networks.AmoebaLike, image(48))
add("own_gnmt", networks.GNMT, sentences)
add("own_nn_transformer", networks.NNTransformer, lambda batch: (randint(0, 2000, (batch, 12)), randint(0, 2000, (batch, 9))))
add("own_dlrm", networks.DLRM, bags)
add("own_loop_stack", programs.LoopStack, lambda batch: (randn(batch, 64), 7))
add("own_inplace", programs.InPlaceNet, vector(128))
add("own_inplace_input", programs.InPlaceInput, vector(64), stateful=True)
add("own_bn_train", programs.BNTrain, image(16), train=True, stateful=True)
add("own_dropout_rng", programs.DropoutNet, vector(128), train=True, random=True)
add("own_struct_io", programs.StructIO, structures)
add("own_early_exit", programs.EarlyExit, vector(64))
add("own_shared_block", programs.SharedBlock, vector(128))
add("own_shared_block_trace", programs.SharedBlock, vector(128), "trace")
add("own_fork_wait", programs.ForkWait, vector(128))
add("own_moe", programs.MoENet, lambda batch: (randn(batch, 6, 64),))
add("own_interface", programs.Interface, vector(64))
add("own_baked_batch_trace", programs.BakedBatch, vector(64), "trace")
add("own_skip_far", programs.SkipFar, lambda batch: (randn(batch, 128), None))


@model("own_dynquant", "script")
def dynquant():
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(*layers).eval(), {nn.Linear}), vector(256)

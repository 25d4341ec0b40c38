"""Makes the models that the tests, the golden files and tools/demo compile: random weights, fixed seeds, saved as TorchScript.

    models.py DIRECTORY [NAME...]      without names: every test model;   --list prints all names

Writes NAME.pt; NAME.inputs.pt and NAME.expected.pt, a tuple of inputs of batch 2 and what the saved file makes of it; and the
same for a batch of four such micro-batches as NAME.inputs4.pt and NAME.expected4.pt. Expected values are pipec's reference: the
saved file in plain torch.jit.load, graph optimiser off, no gradients, one thread, micro-batch by micro-batch.
A model is made again only when these scripts or the version of torch changed.
"""
import hashlib
import os
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

import modelzoo

MICRO_BATCH = 2
warnings.filterwarnings("ignore")


# --- Inputs: functions from a batch size to the tuple of inputs -----------------------------------------------------------------
def image(size):
    return lambda batch: (torch.randn(batch, 3, size, size),)


def vector(width):
    return lambda batch: (torch.randn(batch, width),)


def tokens(vocabulary, *lengths):
    return lambda batch: tuple(torch.randint(5, vocabulary, (batch, length)) for length in lengths)


def maskedTokens(vocabulary, length):
    def make(batch):
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[1::2, -3:] = 0  # every other sample is shorter
        return torch.randint(5, vocabulary, (batch, length)), mask

    return make


# --- Models: functions to (module, inputs, how to save it) ----------------------------------------------------------------------
class Positional(nn.Module):
    """A transformers model as a function of positional tensors that returns its logits."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), use_cache=False).logits


class PositionalBert(Positional):
    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs))).logits


def mlp():
    return modelzoo.Mlp(), vector(64), torch.jit.script


def mlp_markers():
    return modelzoo.MlpWithMarkers(), vector(64), torch.jit.script


def unet():
    return modelzoo.Unet(), image(48), torch.jit.script


def lstm():
    return modelzoo.Lstm(), tokens(500, 12), torch.jit.script


def resnet50(size=96):
    import torchvision

    return torchvision.models.resnet50(), image(size), torch.jit.script


def gpt2(width=256, layers=8, heads=4, vocabulary=5003, length=24):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=width, n_layer=layers, n_head=heads, vocab_size=vocabulary)  # head tied to the embedding
    return Positional(GPT2LMHeadModel(config), ["input_ids"]), tokens(vocabulary, length), torch.jit.trace


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=128, num_hidden_layers=8, num_attention_heads=4, intermediate_size=512, vocab_size=3001)
    model = PositionalBert(BertForMaskedLM(config), ["input_ids", "attention_mask"])
    return model, maskedTokens(3001, 20), torch.jit.trace


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    # One tensor is the encoder's embedding, the decoder's embedding and the output head.
    config = T5Config(d_model=128, d_kv=32, d_ff=256, num_layers=4, num_heads=4, vocab_size=2003, tie_word_embeddings=True)
    model = Positional(T5ForConditionalGeneration(config), ["input_ids", "decoder_input_ids"])
    return model, tokens(2003, 16, 12), torch.jit.trace


def demo_resnet50():
    return resnet50(224)


def demo_gpt2():
    return gpt2(768, 12, 12, 50257, 64)


def mlp_wide():
    return modelzoo.Mlp(2048, 16), vector(2048), torch.jit.script


TESTS = [mlp, mlp_markers, unet, lstm, resnet50, gpt2, bert, t5]
MORE = [demo_resnet50, demo_gpt2, mlp_wide]  # for tools/demo and tools/gpu-check


# --- Saving -----------------------------------------------------------------------------------------------------------------------
def stamp():
    text = torch.__version__ + "".join(Path(f).read_text() for f in (__file__, modelzoo.__file__))
    return hashlib.sha256(text.encode()).hexdigest()


def write(path, save):
    """Complete or not at all: tests that were interrupted leave no half files behind."""
    temporary = path.with_name(path.name + ".part")
    save(str(temporary))
    os.replace(temporary, path)


def concatenate(results):
    if isinstance(results[0], torch.Tensor):
        return torch.cat(results)
    return tuple(concatenate(parts) for parts in zip(*results))


def reference(model, inputs, microBatches):
    pieces = [torch.tensor_split(value, microBatches) for value in inputs]
    return concatenate([model(*piece) for piece in zip(*pieces)])


def make(directory, build):
    name = build.__name__
    done = directory / f"{name}.stamp"
    if done.exists() and done.read_text() == stamp():
        return
    torch.manual_seed(17)
    model, inputsFor, save = build()
    model.eval()
    torch.manual_seed(18)
    small, large = inputsFor(MICRO_BATCH), inputsFor(4 * MICRO_BATCH)
    saved = save(model) if save is torch.jit.script else save(model, small, check_trace=False)
    write(directory / f"{name}.pt", lambda path: torch.jit.save(saved, path))
    loaded = torch.jit.load(directory / f"{name}.pt")
    for suffix, inputs, count in (("", small, 1), ("4", large, 4)):
        expected = reference(loaded, inputs, count)
        write(directory / f"{name}.inputs{suffix}.pt", lambda path: torch.save(inputs, path))
        write(directory / f"{name}.expected{suffix}.pt", lambda path: torch.save(expected, path))
    write(done, lambda path: Path(path).write_text(stamp()))
    print(f"{name}: {(directory / f'{name}.pt').stat().st_size / 1e6:.1f} MB", flush=True)


def main(arguments):
    builders = {build.__name__: build for build in TESTS + MORE}
    if arguments == ["--list"]:
        print("\n".join(builders))
        return 0
    unknown = [name for name in arguments[1:] if name not in builders]
    if not arguments or unknown:
        print(__doc__ if not arguments else f"models.py: no model named {', '.join(unknown)}", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with torch.no_grad(), torch.jit.optimized_execution(False):
        for build in [builders[name] for name in arguments[1:]] or TESTS:
            make(directory, build)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

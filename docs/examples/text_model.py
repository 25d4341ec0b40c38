"""Makes the files of the training in docs/training.md: a small language model of characters, and text to train it on.

    python text_model.py OUT FILE...

Writes OUT/text.pt, a scripted transformer that returns its loss, OUT/micro.pt, an example, and OUT/data.pt, the samples: pieces of the FILEs, in the
order of a fixed seed. The character after each one is its target.
"""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

CONTEXT, WIDTH, HEADS, LAYERS, SAMPLES = 64, 96, 4, 6, 9600


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.heads = HEADS

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.narrow(functional.gelu(self.wide(self.between(x)))))


class TextModel(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, text, target):
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.last(x)).flatten(0, 1), target.flatten())


def main():
    out, files = Path(sys.argv[1]), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    text = "".join(Path(name).read_text(encoding="utf-8") for name in files)
    alphabet = sorted(set(text))
    number = {character: i for i, character in enumerate(alphabet)}
    numbers = torch.tensor([number[character] for character in text])
    torch.manual_seed(0)
    model = TextModel(len(alphabet))
    torch.jit.script(model).save(str(out / "text.pt"))
    starts = torch.randint(len(numbers) - CONTEXT, (SAMPLES,))
    pieces = torch.stack([numbers[start : start + CONTEXT + 1] for start in starts.tolist()])
    inputs, targets = pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
    # Without clone(), the file of a slice holds the whole tensor.
    torch.save((inputs[:4].clone(), targets[:4].clone()), out / "micro.pt")
    torch.save((inputs, targets), out / "data.pt")
    shares = torch.bincount(targets.flatten(), minlength=len(alphabet)).double() / targets.numel()
    entropy = -(shares * shares.clamp_min(1e-12).log()).sum().item()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(text)} characters, {len(alphabet)} different ones, "
          f"{SAMPLES} samples of {CONTEXT}; their frequencies alone give a loss of {entropy:.3f}")


if __name__ == "__main__":
    main()

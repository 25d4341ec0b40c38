"""Small models that return their loss, one per family that trainings are tested with: what each has that schedules and cuts may break.

Each takes `drop`, the rate of its dropouts. Where it is 0 by default, plain PyTorch computes the same bits.
"""
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional


def dropout(drop: float) -> nn.Module:
    return nn.Dropout(drop) if drop else nn.Identity()


class Mlp(nn.Module):
    """A chain, and one skip over all of it."""

    def __init__(self, width: int = 16, layers: int = 10, drop: float = 0.0):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head, self.drop = nn.Linear(width, 5), dropout(drop)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        first = x
        for layer in self.layers:
            x = self.drop(torch.tanh(layer(x)))
        return functional.cross_entropy(self.head(x + first), target)


class UNet(nn.Module):
    """Skips that close in the reverse order of their beginnings."""

    def __init__(self, width: int = 4, depth: int = 4, drop: float = 0.0):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.up = nn.ModuleList(nn.Conv2d(2 * width, width, 3, padding=1) for _ in range(depth))
        self.last, self.drop = nn.Conv2d(width, 1, 1), dropout(drop)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = self.first(x)
        kept = [x]
        for layer in self.down:
            x = self.drop(torch.relu(layer(x)))
            kept.append(x)
        for layer in self.up:
            x = self.drop(torch.relu(layer(torch.cat([x, kept.pop()], 1))))
        return functional.mse_loss(self.last(x), target)


class Block(nn.Module):
    def __init__(self, width: int, drop: float):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2, self.drop = nn.BatchNorm2d(width), nn.BatchNorm2d(width), dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.norm2(self.conv2(self.drop(torch.relu(self.norm1(self.conv1(x)))))))


class ResNet(nn.Module):
    """Batch norm: state that every micro-batch writes, in order."""

    def __init__(self, width: int = 4, blocks: int = 5, drop: float = 0.0):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width, drop) for _ in range(blocks))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x.mean([2, 3])), target)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int = 2, drop: float = 0.1):
        super().__init__()
        self.query, self.both, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.heads, self.drop = heads, nn.Dropout(drop)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, seen: Tensor, causal: bool) -> Tensor:
        keys, values = self.both(seen).chunk(2, -1)
        mixed = functional.scaled_dot_product_attention(self.split(self.query(x)), self.split(keys), self.split(values), is_causal=causal)
        return self.drop(self.out(mixed.transpose(1, 2).reshape(x.size(0), x.size(1), -1)))


class DroppingAttention(Attention):
    """Dropout inside of the attention itself."""

    def __init__(self, width: int, heads: int = 2, drop: float = 0.1, inside: float = 0.1):
        super().__init__(width, heads, drop)
        self.inside = inside

    def forward(self, x: Tensor, seen: Tensor, causal: bool) -> Tensor:
        keys, values = self.both(seen).chunk(2, -1)
        mixed = functional.scaled_dot_product_attention(self.split(self.query(x)), self.split(keys), self.split(values),
                                                        dropout_p=self.inside if self.training else 0.0, is_causal=causal)
        return self.drop(self.out(mixed.transpose(1, 2).reshape(x.size(0), x.size(1), -1)))


def attention(width: int, drop: float, inside: float) -> nn.Module:
    return DroppingAttention(width, drop=drop, inside=inside) if inside else Attention(width, drop=drop)


class Layer(nn.Module):
    def __init__(self, width: int, crosses: bool = False, drop: float = 0.1, attention_drop: float = 0.0):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.cross = attention(width, drop, attention_drop), attention(width, drop, attention_drop)
        self.wide, self.narrow, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(drop)
        self.crosses = crosses

    def forward(self, x: Tensor, seen: Tensor, causal: bool) -> Tensor:
        n = self.norm1(x)
        x = x + self.attention(n, n, causal)
        if self.crosses:
            x = x + self.cross(self.norm3(x), seen, False)
        return x + self.drop(self.narrow(functional.gelu(self.wide(self.norm2(x)))))


class Gpt(nn.Module):
    """The first and the last stage share a weight, unless it is not tied; dropout in every layer."""

    def __init__(self, width: int = 16, layers: int = 4, words: int = 32, length: int = 6, drop: float = 0.1, attention_drop: float = 0.0, tied: bool = True):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, drop=drop, attention_drop=attention_drop) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight
        self.register_buffer("positions", torch.arange(length))

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.words(ids) + self.places(self.positions)
        for layer in self.layers:
            x = layer(x, x, True)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Translator(nn.Module):
    """Every layer of the decoder reads the encoder's result; one embedding for both and for the result."""

    def __init__(self, width: int = 16, layers: int = 2, words: int = 32, drop: float = 0.0):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(Layer(width, drop=drop) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, crosses=True, drop=drop) for _ in range(layers))

    def forward(self, source: Tensor, ids: Tensor) -> Tensor:
        seen = self.words(source)
        for layer in self.encoder:
            seen = layer(seen, seen, False)
        x = self.words(ids[:, :-1])
        for layer in self.decoder:
            x = layer(x, seen, True)
        return functional.cross_entropy(functional.linear(x, self.words.weight).flatten(0, 1), ids[:, 1:].flatten())


class Lstm(nn.Module):
    """Weights in lists; several results per operator. `inside`: the dropout between the layers of each LSTM, by default as `drop`."""

    def __init__(self, width: int = 12, layers: int = 4, drop: float = 0.0, inside: Optional[float] = None):
        super().__init__()
        self.words = nn.Embedding(16, width)
        inside = drop if inside is None else inside
        deep = 2 if inside else 1  # an LSTM drops out between layers of its own
        self.layers = nn.ModuleList(nn.LSTM(width, width, deep, batch_first=True, dropout=inside) for _ in range(layers))
        self.head, self.drop = nn.Linear(width, 16), dropout(drop)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = x + self.drop(layer(x)[0])
        return functional.cross_entropy(self.head(x).flatten(0, 1), target.flatten())


class Experts(nn.Module):
    """Each sample goes to one of several experts, chosen by values: gradients that are zero for the others."""

    def __init__(self, width: int = 12, layers: int = 4, experts: int = 3, drop: float = 0.2):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.experts = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(experts)) for _ in range(layers))
        self.head, self.drop = nn.Linear(width, 5), nn.Dropout(drop)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        for gate, experts in zip(self.gates, self.experts):
            weights = torch.softmax(gate(x), -1)
            chosen = weights.argmax(-1)
            y = torch.zeros_like(x)
            for index, expert in enumerate(experts):
                mine = (chosen == index).unsqueeze(-1)
                y = y + torch.where(mine, torch.relu(expert(x)) * weights[:, index:index + 1], torch.zeros_like(x))
            x = self.drop(x + y)
        return functional.cross_entropy(self.head(x), target)


def classes(count, *shape, seed=1):
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


# name: class, a batch of 10 samples, whether stages may share a weight
MODELS = {
    "mlp": (Mlp, lambda: (numbers(10, 16), classes(5, 10)), False),
    "unet": (UNet, lambda: (numbers(10, 1, 8, 8), numbers(10, 1, 8, 8)), False),
    "resnet": (ResNet, lambda: (numbers(10, 1, 8, 8), classes(5, 10)), False),
    "gpt": (Gpt, lambda: (classes(32, 10, 6), classes(32, 10, 6, seed=3)), True),
    "translator": (Translator, lambda: (classes(32, 10, 5), classes(32, 10, 6, seed=3)), True),
    "lstm": (Lstm, lambda: (classes(16, 10, 5), classes(16, 10, 5, seed=3)), False),
    "experts": (Experts, lambda: (numbers(10, 12), classes(5, 10)), False),
}


def save(name, to=None, **options):
    """Writes TO.pt and TO.batch.pt, by default with the model's name, into the working directory; returns both names. `options` are those of the model."""
    make, batch, _ = MODELS[name]
    to = to or name
    torch.manual_seed(0)
    torch.jit.script(make(**options)).save(f"{to}.pt")
    torch.save(batch(), f"{to}.batch.pt")
    return f"{to}.pt", f"{to}.batch.pt"

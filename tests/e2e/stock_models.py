"""Small stacks of torch.nn's modules and inputs for them, for stock_modules.py."""
from typing import Optional

import torch
from torch import Tensor, nn, randn

WIDTH, HEADS, HIDDEN, LENGTH = 16, 2, 32, 6


def layer(kind=nn.TransformerEncoderLayer, heads=HEADS, width=WIDTH, dropout=0.0, **how):
    return kind(width, heads, HIDDEN, dropout, **{"batch_first": True, **how})


class Encoder(nn.Module):
    def __init__(self, norm=None, nested=True, checked=True, **how):
        super().__init__()
        self.enc = nn.TransformerEncoder(layer(**how), 4, norm=norm, enable_nested_tensor=nested, mask_check=checked)

    def forward(self, x: Tensor) -> Tensor:
        return self.enc(x)


class EncoderPadding(Encoder):
    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.enc(x, src_key_padding_mask=padding)


class EncoderUnchecked(EncoderPadding):
    """Always nested: the mask is not tested for padding."""

    def __init__(self):
        super().__init__(checked=False)


class EncoderOptional(Encoder):
    def forward(self, x: Tensor, padding: Optional[Tensor] = None) -> Tensor:
        return self.enc(x, src_key_padding_mask=padding)


class EncoderMask(Encoder):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.enc(x, mask=mask)


class EncoderBothMasks(Encoder):
    def forward(self, x: Tensor, padding: Tensor, mask: Tensor) -> Tensor:
        return self.enc(x, mask=mask, src_key_padding_mask=padding)


class EncoderNormFirst(EncoderPadding):
    def __init__(self):
        super().__init__(norm=nn.LayerNorm(WIDTH), nested=False, norm_first=True)


class EncoderGelu(EncoderPadding):
    def __init__(self):
        super().__init__(norm=nn.LayerNorm(WIDTH), activation="gelu")


class EncoderOddHeads(EncoderPadding):
    def __init__(self):
        super().__init__(nested=False, heads=1)


class EncoderDropout(Encoder):
    def __init__(self):
        super().__init__(dropout=0.1)


class EncoderSequenceFirst(Encoder):
    def __init__(self):
        super().__init__(nested=False, batch_first=False)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.dec = nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 4)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return self.dec(x, memory)


class DecoderMasks(Decoder):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, padding: Tensor) -> Tensor:
        return self.dec(x, memory, tgt_mask=mask, memory_key_padding_mask=padding)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(WIDTH, HEADS, 2, 2, HIDDEN, 0.0, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.net(x, y)


class TransformerMasks(Transformer):
    def forward(self, x: Tensor, y: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return self.net(x, y, src_key_padding_mask=left, tgt_key_padding_mask=right, memory_key_padding_mask=left)


class AttentionBlock(nn.Module):
    def __init__(self, weights: bool):
        super().__init__()
        self.attention, self.norm, self.weights = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), nn.LayerNorm(WIDTH), weights

    def forward(self, x: Tensor, padding: Optional[Tensor] = None) -> Tensor:
        y, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=self.weights)
        return self.norm(x + y)


class Attention(nn.Module):
    def __init__(self, weights=False):
        super().__init__()
        self.blocks = nn.ModuleList([AttentionBlock(weights) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class AttentionWeights(Attention):
    def __init__(self):
        super().__init__(weights=True)


class AttentionPadding(Attention):
    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, padding)
        return x


class Recurrent(nn.Module):
    def __init__(self, kind, bidirectional=False):
        super().__init__()
        make, wide = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind], 2 * WIDTH if bidirectional else WIDTH
        self.cells = nn.ModuleList([make(wide if i else WIDTH, WIDTH, batch_first=True, bidirectional=bidirectional) for i in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for cell in self.cells:
            x, _ = cell(x)
        return x


def padding(batch, length=LENGTH, left=False):
    """True where nothing is: samples of different lengths, the first one whole."""
    rest = torch.arange(length).expand(batch, length) >= length - torch.arange(batch).unsqueeze(1)
    return rest.flip(1) if left else rest


def causal(length=LENGTH):
    return nn.Transformer.generate_square_subsequent_mask(length)


def sequence(batch):
    return (randn(batch, LENGTH, WIDTH),)


def sequenceFirst(batch):
    return (randn(LENGTH, batch, WIDTH),)


def padded(batch):
    return *sequence(batch), padding(batch)


def leftPadded(batch):
    return *sequence(batch), padding(batch, left=True)


def floatPadded(batch):
    return *sequence(batch), torch.zeros(batch, LENGTH).masked_fill(padding(batch), float("-inf"))


def masked(batch):
    return *sequence(batch), causal()


def paddedAndMasked(batch):
    return *sequence(batch), torch.zeros(batch, LENGTH).masked_fill(padding(batch), float("-inf")), causal()


def pair(batch):
    return randn(batch, LENGTH, WIDTH), randn(batch, LENGTH - 1, WIDTH)


def pairMasked(batch):
    return *pair(batch), causal(), padding(batch, LENGTH - 1)


def pairPadded(batch):
    return *pair(batch), padding(batch), padding(batch, LENGTH - 1)

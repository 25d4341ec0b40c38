"""Stacks of torch.nn's own modules, as authors write them: each row is cut at every layer, and equal in bits to the unsplit model.

    stock_modules.py [NAME...]       rows whose name holds one of these; without names all of them
"""
import re
import warnings
from collections import namedtuple
from pathlib import Path

import torch
from torch import nn

import e2e
import stock_models as stock

Row = namedtuple("Row", "name build inputs at layers ways")
LAYERS = 4
EVAL = ("eval script", "eval trace")
BOTH = (*EVAL, "train script", "train trace")
QUANTISED = ("eval script int8", "eval trace int8")


def rows():
    encoder, decoder, block, cell = "enc.layers.{}", "dec.layers.{}", "blocks.{}", "cells.{}"
    yield Row("encoder", stock.Encoder, stock.sequence, encoder, LAYERS, BOTH)
    yield Row("encoder-padding", stock.EncoderPadding, stock.padded, encoder, LAYERS, BOTH)
    yield Row("encoder-left-padding", stock.EncoderPadding, stock.leftPadded, encoder, LAYERS, ("eval script",))
    yield Row("encoder-float-padding", stock.EncoderPadding, stock.floatPadded, encoder, LAYERS, ("eval script",))
    yield Row("encoder-unchecked-padding", stock.EncoderUnchecked, stock.padded, encoder, LAYERS, ("eval script",))
    yield Row("encoder-optional-padding", stock.EncoderOptional, stock.padded, encoder, LAYERS, ("eval script",))
    yield Row("encoder-optional-nothing", stock.EncoderOptional, stock.sequence, encoder, LAYERS, ("eval script",))
    yield Row("encoder-mask", stock.EncoderMask, stock.masked, encoder, LAYERS, BOTH)
    yield Row("encoder-both-masks", stock.EncoderBothMasks, stock.paddedAndMasked, encoder, LAYERS, ("eval script", "train script"))
    yield Row("encoder-norm-first", stock.EncoderNormFirst, stock.padded, encoder, LAYERS, EVAL)
    yield Row("encoder-gelu-norm", stock.EncoderGelu, stock.padded, encoder, LAYERS, EVAL)
    yield Row("encoder-odd-heads", stock.EncoderOddHeads, stock.padded, encoder, LAYERS, ("eval script",))
    yield Row("encoder-dropout", stock.EncoderDropout, stock.sequence, encoder, LAYERS, ("train script",))
    yield Row("encoder-sequence-first", stock.EncoderSequenceFirst, stock.sequenceFirst, encoder, LAYERS, EVAL)
    yield Row("decoder", stock.Decoder, stock.pair, decoder, LAYERS, (*BOTH, *QUANTISED))
    yield Row("decoder-masks", stock.DecoderMasks, stock.pairMasked, decoder, LAYERS, EVAL)
    yield Row("transformer", stock.Transformer, stock.pair, "net.decoder.layers.{}", 2, BOTH)
    yield Row("transformer-masks", stock.TransformerMasks, stock.pairPadded, "net.decoder.layers.{}", 2, ("eval script", "train script"))
    yield Row("attention", stock.Attention, stock.sequence, block, LAYERS, (*BOTH, *QUANTISED))
    yield Row("attention-weights", stock.AttentionWeights, stock.sequence, block, LAYERS, ("eval script",))
    yield Row("attention-padding", stock.AttentionPadding, stock.padded, block, LAYERS, EVAL)
    for kind in ("lstm", "gru", "rnn"):
        yield Row(kind, lambda kind=kind: stock.Recurrent(kind), stock.sequence, cell, LAYERS, (*BOTH, *QUANTISED) if kind != "rnn" else EVAL)
    yield Row("lstm-bidirectional", lambda: stock.Recurrent("lstm", bidirectional=True), stock.sequence, cell, LAYERS, EVAL)


def save(row, way, path):
    mode, how, *quantised = way.split()
    torch.manual_seed(3)
    module = row.build().train(mode == "train")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if quantised:
            module = torch.ao.quantization.quantize_dynamic(module, {nn.Linear, nn.LSTM, nn.GRU}, dtype=torch.qint8)
        with torch.no_grad():
            saved = torch.jit.script(module) if how == "script" else torch.jit.trace(module, row.inputs(2), check_trace=False)
    saved.save(str(path))


class StockModules(e2e.Case):
    def testEveryRow(self):
        for row in rows():
            if e2e.NAMES and not any(name in row.name for name in e2e.NAMES):
                continue
            for way in row.ways:
                with self.subTest(row=row.name, way=way):
                    self.one(row, way)

    def one(self, row, way):
        model, batch = Path(f"{row.name}-{way.replace(' ', '-')}.pt"), 2 if "trace" in way else 3
        save(row, way, model)
        torch.save(row.inputs(2), "example.pt")
        torch.save(row.inputs(batch), "inputs.pt")
        self.pipec(0, "pipe-run", model, "--inputs", "inputs.pt", "--microbatches", 1, "--threads", 1, "--output", "expected.pt", "--force")
        expected = torch.load("expected.pt")
        if row.name != "encoder-dropout":  # pipec draws numbers of its own
            with torch.no_grad(), torch.jit.optimized_execution(False):
                self.sameBits(torch.jit.load(model)(*torch.load("inputs.pt")), expected, "pipe-run of the unsplit model")
        names = [row.at.format(i) for i in range(1, row.layers)]
        cut = {"named.pipe": ("--at", ",".join(names)), "typed.pipe": ("--at", ",".join(names), "--inputs", "example.pt")}
        if way == "eval script":
            cut["planned.pipe"] = ("--stages", row.layers, "--inputs", "example.pt")
        for artifact, options in cut.items():
            result = self.pipec(0, "pipe-compile", model, "-o", artifact, "--force", *options)
            stages = e2e.plan(artifact)["stages"]
            self.assertEqual(len(stages), row.layers)
            self.assertTrue(all(stage["nodes"] > 0 for stage in stages), stages)
            if artifact == "planned.pipe":
                costs = [stage["cost_flops"] for stage in stages]
                self.assertLess(max(costs), 2 * sum(costs) / len(costs), f"{artifact}: {costs}")
            else:
                firsts = [re.sub(r"#\d+", "", stage["first_module"]) for stage in stages[1:]]
                self.assertEqual([name for name, first in zip(names, firsts) if (first + ".").startswith(name + ".")], names, firsts)
                self.assertNotIn("not possible", result.err)
            self.pipec(0, "pipe-run", artifact, "--inputs", "inputs.pt", "--microbatches", 1, "--threads", 1, "--output", "actual.pt", "--force")
            self.sameBits(expected, torch.load("actual.pt"), artifact)


if __name__ == "__main__":
    e2e.main()

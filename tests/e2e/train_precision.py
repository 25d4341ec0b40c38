"""train_precision.py: trainings under bfloat16 autocast, and what optimizers refuse before anything is updated."""
import json
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

import e2e

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE = 2
SGD = ["--optimizer", "sgd,lr=0.05,momentum=0.9"]


class Mixed(nn.Module):
    """Convolutions, norms of both kinds, a weight that is used twice, a skip, a product that autocast sees."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.wide, self.twice, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 5)
        self.inner = nn.LayerNorm(16)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + torch.relu(self.second(x))
        y = torch.relu(self.wide(x.mean([2, 3])))
        y = self.inner(self.twice(torch.tanh(self.twice(y))) + y)
        y = torch.matmul(y, y.t()).softmax(1).matmul(y)
        return functional.cross_entropy(self.last(y), target)


class SparseWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.a, self.b = nn.Embedding(10, 8, sparse=True), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(self.words(ids)))).square().mean()


class TrainPrecision(e2e.Case):
    def compiled(self, make, batch, *options):
        torch.manual_seed(0)
        model = make()
        torch.jit.script(model).save("m.pt")
        torch.save(batch, "batch.pt")
        self.pipec(0, "pipe-compile", "m.pt", "--train", "--stages", 4, "--inputs", "batch.pt", "--cost", "analytic", "--schedule", "1f1b", "-o", "m.pipe",
                   "--force", *options)
        return model

    def trained(self, model, *arguments):
        done = self.pipec(0, "pipe-run", model, "--train", *arguments, "--json", "--output", "state.pt", "--emit-grads", "grads.pt", "--force")
        return torch.load("state.pt"), torch.load("grads.pt"), [json.loads(line)["loss"] for line in done.out.splitlines()
                                                               if line.startswith("{") and '"step":' in line]

    def testBf16(self):
        batch = torch.randn(10, 3, 6, 6), torch.randint(0, 5, (10,))
        for options in ([], ["--recompute", "always"]):
            model = self.compiled(Mixed, batch, *options)
            run = ["--inputs", "batch.pt", "--microbatches", 3, "--steps", 3, *SGD]
            full = self.trained("m.pt", *run)
            expected, losses = self.inPython(model, batch, 3, 3)
            for what, more in (("m.pt", []), ("m.pipe", []), ("m.pipe", ["--schedule", "gpipe"]), ("m.pipe", ["--schedule", "zb-h1"])):
                state, gradients, found = self.trained(what, *run, "--precision", "bf16", *more)
                self.sameBits(expected, {name: state[name] for name in expected}, f"{what} {more} {options}")
                self.assertEqual(found, losses)
                self.assertTrue(all(value.dtype == torch.float32 for value in gradients.values()))
            self.assertNotEqual(full[2], found)
            for a, b in zip(full[2], found):
                self.assertLess(abs(a - b), 0.05)

    def inPython(self, model, batch, parts, steps):
        """Eager PyTorch under autocast whose cache of casts is off."""
        torch.set_num_threads(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            total = torch.tensor(0.0)
            for x, target in zip(*(tensor.tensor_split(parts) for tensor in batch)):
                with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
                    loss = model(x, target)
                scale = torch.tensor(len(x) / len(batch[0]))
                loss.backward(scale)
                total = total + loss.detach() * scale
            optimizer.step()
            losses.append(total.item())
        return dict(model.state_dict()), losses

    def testBf16OfManyModels(self):
        for name in ("gpt", "lstm", "unet", "experts"):
            model, batch = training_models.save(name)
            self.pipec(0, "pipe-compile", model, "--train", "--stages", 4, "--inputs", batch, "--cost", "analytic", "--schedule", "1f1b", "-o", "many.pipe",
                       "--force")
            run = ["--inputs", batch, "--microbatches", 3, "--precision", "bf16"]
            expected = self.trained(model, *run)
            for schedule in ("1f1b", "zb-h1"):
                found = self.trained("many.pipe", *run, "--schedule", schedule)
                self.assertEqual(found[2], expected[2], name)
                for key, value in expected[1].items():
                    if name == "gpt":
                        self.assertLessEqual((found[1][key] - value).norm(), 1e-6 * value.norm(), key)
                    else:
                        self.sameBits(value, found[1][key], f"{name} {schedule} {key}")

    def testOtherPrecisions(self):
        self.compiled(SparseWords, (torch.randint(0, 10, (8, 4)),))
        for what in ("m.pt", "m.pipe"):
            self.refused(USAGE, ["--precision: expected f32 or bf16, got fp16", "float16 needs losses to be scaled"], "pipe-run", what, "--train", "--inputs",
                         "batch.pt", "--precision", "fp16")
            self.refused(USAGE, "--precision: expected f32 or bf16, got f64", "pipe-run", what, "--train", "--inputs", "batch.pt", "--precision", "f64")

    def testSparseGradients(self):
        self.compiled(SparseWords, (torch.randint(0, 10, (8, 4)),))
        run = ["--inputs", "batch.pt", "--microbatches", 2]
        for what in ("m.pt", "m.pipe"):
            for optimizer, named in (("adam", "adam"), ("adamw", "adamw"), ("rmsprop", "rmsprop"), ("sgd,weight_decay=0.1", "sgd with weight_decay"),
                                     ("adagrad,weight_decay=0.1", "adagrad with weight_decay")):
                self.refused(USAGE, [f"step 1: parameter words.weight: expected a dense gradient for {named}, got a sparse one", "sparse=False"], "pipe-run",
                             what, "--train", *run, "--optimizer", optimizer)
        for optimizer in ("sgd,lr=0.1", "sgd,lr=0.1,momentum=0.9", "adagrad"):
            expected = self.trained("m.pt", *run, "--steps", 3, "--optimizer", optimizer)
            self.sameBits(expected[:2], self.trained("m.pipe", *run, "--steps", 3, "--optimizer", optimizer)[:2])

    def testMoreMicroBatchesThanTheLastBatchHasSamples(self):
        self.compiled(SparseWords, (torch.randint(0, 10, (8, 4)),))
        torch.save((torch.randint(0, 10, (11, 4)),), "data.pt")
        self.pipec(0, "pipe-schedule", "1f1b", "--ranks", 4, "--microbatches", 4, "--csv", "table.csv")
        for what, more in (("m.pt", ["--microbatches", 4]), ("m.pipe", ["--microbatches", 4]), ("m.pipe", ["--schedule", "table.csv"])):
            done = self.refused(USAGE, "--microbatches: expected at most 3, the samples of the smallest batch of --data, got 4", "pipe-run", what, "--train",
                                "--data", "data.pt", "--batch", 4, *more)
            self.assertNotIn("step 1", done.out + done.err)
            self.pipec(0, "pipe-run", what, "--train", "--data", "data.pt", "--batch", 11, *more)


if __name__ == "__main__":
    e2e.main()

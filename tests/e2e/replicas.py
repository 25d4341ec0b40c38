"""replicas.py: pipe-run --train --replicas: what it computes, what it keeps, what it refuses."""
import json
import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import e2e
import train_grid
import train_losses

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

USAGE, UNREADABLE, NOT_FINITE = 2, 3, 11
SGD = ["--steps", 3, "--optimizer", "sgd,lr=0.1,momentum=0.9", "--clip-norm", "0.5"]


class ConstantBatch(nn.Module):
    """No argument has a batch dimension."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, scale: float) -> Tensor:
        return (self.b(torch.tanh(self.a(torch.ones(4) * scale))) ** 2).sum()


class Replicas(e2e.Case):
    def trained(self, what, *options, **how):
        """Gradients of the last step and all weights after a training, and what the command printed."""
        done = self.pipec(0, "pipe-run", what, "--train", *options, "--emit-grads", "grads.pt", "--output", "state.pt", "--force", **how)
        return torch.load("grads.pt"), torch.load("state.pt"), done

    def made(self, name, *options):
        model, batch = training_models.save(name)
        self.compiled(model, f"{name}.pipe", "--train", "--stages", 4, "--ranks", 2, "--inputs", batch, "--schedule", "zb-v", *options)
        return model, f"{name}.pipe", batch

    def test_as_the_whole_batch(self):
        """Equal bits where every replica has one micro-batch, and 1e-6 where sums are made in another order."""
        for name, ties in (("mlp", [[]]), ("unet", [[]]), ("gpt", [["--tied", "transmit"], ["--tied", "replicate"]]), ("experts", [[]])):
            for tie in ties:
                model, artifact, batch = self.made(name, *tie)
                for replicas, each in ((1, 3), (2, 1), (3, 1), (2, 2), (3, 2), (2, 4), (3, 3)):
                    expected = self.trained(model, "--inputs", batch, "--microbatches", replicas * each, *SGD)
                    for schedule in ("1f1b", "zb-v"):
                        what = f"{name} {tie} {schedule}, {replicas} replicas of {each} micro-batches"
                        actual = self.trained(artifact, "--inputs", batch, "--replicas", replicas, "--microbatches", each, "--schedule", schedule, *SGD)
                        isExact = name != "gpt" and (each == 1 or replicas == 1)
                        for a, b in zip(expected[:2], actual[:2]):
                            self.assertEqual(sorted(a), sorted(b), what)
                            worst = train_grid.compare(a, b, a)
                            if isExact:
                                self.assertIsNone(worst, what)
                            else:
                                self.assertLessEqual((worst or (0, ""))[0], train_grid.TOLERANCE, f"{what}: {worst}")

    def test_same_bits_in_every_run(self):
        """Whichever replica is first: a sum is made in the order of replicas."""
        _, artifact, batch = self.made("unet", "--recompute", "always")
        run = ["--inputs", batch, "--replicas", 3, "--microbatches", 3, *SGD]
        first = self.trained(artifact, *run)
        for _ in range(5):
            self.sameBits(first[:2], self.trained(artifact, *run)[:2])

    def test_counts_batches_and_given_micro_batches(self):
        """A loss that is a pair is divided by the count of all replicas. Accumulated batches are dealt one by one."""
        torch.manual_seed(0)
        torch.jit.script(train_losses.PairOfWords()).save("pair.pt")
        ids = torch.randint(0, 8, (9, 5))
        target = torch.where(torch.rand(9, 5) < torch.linspace(0.1, 0.9, 9).unsqueeze(1), 0, ids)
        torch.save((ids, target), "words.pt")
        self.compiled("pair.pt", "pair.pipe", "--train", "--stages", 2, "--inputs", "words.pt", "--schedule", "1f1b")
        of = ["--inputs", "words.pt", *SGD]
        self.sameBits(self.trained("pair.pt", *of, "--microbatches", 3)[:2], self.trained("pair.pipe", *of, "--replicas", 3, "--microbatches", 1)[:2])
        for of in (["--data", "words.pt", "--batch", 3, "--accumulate", 2, *SGD[2:]], ["--inputs", "cut.pt", "--presplit", *SGD]):
            torch.save([(ids[k:k + n], target[k:k + n]) for k, n in ((0, 1), (1, 4), (5, 2), (7, 2))], "cut.pt")
            isCut = "--presplit" in of
            expected = self.trained("pair.pt", *of, *([] if isCut else ["--microbatches", 2]))
            actual = self.trained("pair.pipe", *of, "--replicas", 2, "--microbatches", 2 if isCut else 1)
            for a, b in zip(expected[:2], actual[:2]):
                self.assertLessEqual((train_grid.compare(a, b, a) or (0, ""))[0], train_grid.TOLERANCE, of)

    def test_not_finite(self):
        """All replicas stop, or skip, by a loss of one of them."""
        model, artifact, _ = self.made("mlp")
        x, target = training_models.MODELS["mlp"][1]()
        x[9, 0] = float("nan")
        torch.save((x, target), "nan.pt")
        run = ["--inputs", "nan.pt", "--replicas", 2, "--microbatches", 2, *SGD]
        self.refused(NOT_FINITE, ["micro-batch 3: expected a finite loss, got nan", "--on-nan skip"], "pipe-run", artifact, "--train", *run)
        _, state, _ = self.trained(artifact, *run, "--on-nan", "skip")
        before = dict(torch.jit.load(model).state_dict())
        self.sameBits(before, {key: state[key] for key in before})

    def test_checkpoints_and_evaluations(self):
        """All replicas go on from a checkpoint, with other replicas, too, and evaluations read the weights that all have."""
        model, artifact, batch = self.made("mlp", "--evaluation")
        adam = ["--inputs", batch, "--optimizer", "adamw,lr=0.01", "--eval-data", batch]
        two = ["--replicas", 2, "--microbatches", 1]
        whole = self.trained(artifact, *adam, *two, "--steps", 4)
        self.sameBits(self.trained(model, *adam, "--microbatches", 2, "--steps", 4)[:2], whole[:2])
        self.trained(artifact, *adam, *two, "--steps", 2, "--checkpoint", "two")
        resumed = self.trained(artifact, *adam, *two, "--steps", 4, "--checkpoint", "two", "--resume")
        self.sameBits(whole[:2], resumed[:2])
        self.sameBits(whole[:2], self.trained(model, *adam, "--microbatches", 2, "--steps", 4, "--resume=two/step-2")[:2])
        self.trained(model, *adam, "--microbatches", 2, "--steps", 2, "--checkpoint", "one")
        actual = self.trained(artifact, *adam, *two, "--steps", 4, "--resume=one/step-2")
        self.sameBits(whole[:2], actual[:2])
        self.assertNotIn("this run has", actual[2].err)
        for done in (resumed, actual):
            self.assertEqual(done[2].out.count("eval"), whole[2].out.count("eval"))

    def test_report_and_trace(self):
        _, artifact, batch = self.made("mlp")
        _, _, done = self.trained(artifact, "--inputs", batch, "--replicas", 2, "--microbatches", 2, "--json", "--trace", "trace.json", *SGD)
        report = json.loads(done.out[done.out.index("{\n"):])
        self.assertEqual([report["options"]["replicas"], report["options"]["microbatches"]], [2, 4])
        trace = json.loads(Path("trace.json").read_text(encoding="utf-8"))
        names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
        self.assertEqual([name for name in names if "predicted" not in name], [f"rank {rank}" for rank in range(4)])
        self.assertEqual(sum(event["name"].startswith("REDUCE") for event in trace["traceEvents"] if event.get("ph") == "X"), 2 * 2 * 4)
        self.assertEqual([trace["otherData"][key] for key in ("ranks", "replicas", "micro_batches")], [4, 2, 2])
        self.pipec(0, "pipe-inspect", artifact, "--html", "page.html", "--trace", "trace.json", "--force")
        page = Path("page.html").read_text(encoding="utf-8")
        self.assertIn("with 2 micro-batches in each of 2 replicas, whose ranks follow one another, 2 each: ", page)
        measured = page[page.index("A measured step"):]
        self.assertEqual([measured.count(f">rank {rank}<") for rank in range(4)], [2] * 4)  # measured, and predicted
        for about, code, saying in (({"ranks": 5}, UNREADABLE, "expected ranks of 2 replicas, got 5"), ({"replicas": 0}, UNREADABLE, "expected ranks of 0 replicas, got 4"),
                                    ({"ranks": 10}, USAGE, "expected a trace of at most 4 ranks per replica, got 5"),
                                    ({"ranks": 8192, "replicas": 4096}, USAGE, "expected a trace of at most 4096 ranks, got 8192")):
            Path("odd.json").write_text(json.dumps({**trace, "otherData": {**trace["otherData"], **about}}), encoding="utf-8")
            self.refused(code, saying, "pipe-inspect", artifact, "--html", "no.html", "--trace", "odd.json")
        _, _, done = self.trained(artifact, "--inputs", batch, "--replicas", 6, *SGD)
        self.assertIn("running 6 micro-batches instead of the default", done.err)

    def test_as_many_as_fit(self):
        """auto: as many whole pipelines as there are cores for, or devices."""
        _, artifact, batch = self.made("mlp")
        run = ["--inputs", batch, "--microbatches", 2, *SGD]
        expected = self.trained(artifact, *run, "--replicas", 2)
        *actual, done = self.trained(artifact, *run, "--replicas", "auto", "--device", "cpu,cpu,cpu,cpu", "--json")
        self.sameBits(list(expected[:2]), actual)
        self.assertIn("note: --replicas auto: 2 replicas of 2 ranks each, for 4 devices\n", done.err)
        self.assertEqual(json.loads(done.out[done.out.index("{\n"):])["options"]["replicas"], 2)
        oneCore = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        _, _, done = self.trained(artifact, *run, "--replicas", "auto", before=oneCore)
        self.assertIn("note: --replicas auto: 1 replica of 2 ranks each, for 1 core\n", done.err)
        # The schedule makes the ranks.
        _, _, done = self.trained(artifact, *run, "--replicas", "auto", "--schedule", "1f1b", "--device", "cpu,cpu,cpu,cpu")
        self.assertIn("note: --replicas auto: 1 replica of 4 ranks each, for 4 devices\n", done.err)
        # Several are refused where replicas are.
        _, normed, _ = self.made("resnet")
        resnet = ["pipe-run", normed, "--train", "--inputs", "resnet.batch.pt", "--replicas", "auto"]
        self.refused(USAGE, "replicas: expected stages whose state micro-batches only read", *resnet, "--device", "cpu,cpu,cpu,cpu")
        self.pipec(0, *resnet, before=oneCore)

    def test_refused(self):
        model, artifact, batch = self.made("mlp")
        run = ["pipe-run", artifact, "--train", "--inputs", batch, "--replicas"]
        self.refused(USAGE, "--replicas: expected at least 1, got 0", *run, 0)
        self.refused(USAGE, "--replicas: expected a whole number or auto, got \"many\"", *run, "many")
        self.refused(USAGE, "--replicas: expected at most 4096, got 4097", *run, 4097)
        self.refused(USAGE, "replicas: expected at most 2048, of 2 ranks each, got 3000", *run, 3000)
        self.refused(USAGE, ["replicas: expected the order of the schedule, got a dynamic one", "leave out --dynamic"], *run, 2, "--dynamic", 2)
        self.refused(USAGE, "got --batch-norm deferred", *run, 2, "--batch-norm", "deferred")
        self.refused(USAGE, ["batch: expected at least one sample for each of 11 replicas, got 10 samples"], *run, 11)
        self.refused(USAGE, "micro-batches: expected at most 10, the number of samples, got 12", *run, 3, "--microbatches", 4)
        self.refused(USAGE, "devices: expected one, or one for each of 4 ranks, got 2", *run, 2, "--device", "cpu,cpu")
        self.pipec(0, *run, 2, "--device", "cpu,cpu,cpu,cpu")
        self.refused(USAGE, "--replicas: expected an artifact, got a .pt", "pipe-run", model, *run[2:], 2)
        self.refused(USAGE, "--replicas: expected --train with it", "pipe-run", artifact, *run[3:], 2)
        torch.save([tuple(value[k:k + 2] for value in torch.load(batch)) for k in (0, 2, 4)], "three.pt")
        self.refused(USAGE, ["micro-batches: expected a multiple of 2, so that each replica has as many, got 3"], "pipe-run", artifact, "--train", "--inputs",
                     "three.pt", "--presplit", "--replicas", 2)
        norm, normed, _ = self.made("resnet")
        self.refused(USAGE, ["replicas: expected stages whose state micro-batches only read, got stage 0, which writes ", "train without replicas"], "pipe-run",
                     normed, "--train", "--inputs", "resnet.batch.pt", "--replicas", 2)
        torch.jit.script(ConstantBatch()).save("constant.pt")
        torch.save((0.5,), "half.pt")
        self.compiled("constant.pt", "constant.pipe", "--train", "--stages", 2, "--inputs", "half.pt", "--schedule", "1f1b")
        self.refused(USAGE, "batch: expected an input with a batch dimension", "pipe-run", "constant.pipe", "--train", "--inputs", "half.pt", "--replicas", 2)


if __name__ == "__main__":
    e2e.main()

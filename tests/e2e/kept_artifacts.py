"""Artifacts of earlier versions, kept in tests/artifacts, load and compute what they computed when they were made; those that must not
load are refused in words."""

import json
import shutil
from pathlib import Path

import damage
import e2e

KEPT = sorted(path.parent for path in (e2e.SOURCE / "tests" / "artifacts").glob("*/model.pipe"))
TRAINED = [folder for folder in KEPT if folder.name.endswith("-training")]
INFERRED = [folder for folder in KEPT if folder not in TRAINED]
REFUSED = sorted(path.parent for path in (e2e.SOURCE / "tests" / "artifacts" / "refused").glob("*/refusal.json"))


class Kept(e2e.Case):
    def testThereAreSome(self):
        """Of each format, as the folder's name says."""
        self.assertIn("v1-mlp", [folder.name for folder in INFERRED])
        self.assertIn("v1.3-training", [folder.name for folder in TRAINED])
        minors = {folder.name: e2e.plan(folder / "model.pipe")["format_version"]["minor"] for folder in KEPT}
        self.assertLessEqual(set(range(7)), set(minors.values()))
        for name, minor in minors.items():
            self.assertEqual(name.split("-")[0], f"v1.{minor}" if minor else "v1")
        training = e2e.plan(next(folder for folder in TRAINED if folder.name == "v1.6-training") / "model.pipe")["training"]
        for key in ("optimizer_ns", "pending_bytes"):
            self.assertTrue(any(stage.get(key) for stage in training["costs"]), f"a cost of 1.6: {key}")
        self.assertGreater(training["samples"], 0)

    def testTheyAreSmall(self):
        """They stay in the tree for ever."""
        self.assertLess(sum(path.stat().st_size for path in (e2e.SOURCE / "tests" / "artifacts").rglob("*") if path.is_file()), 1_000_000)

    def testRun(self):
        """Within the tolerance of the dtype: the last bits depend on the processor."""
        for folder in INFERRED:
            for count in (1, 2, 3):
                with self.subTest(artifact=folder.name, microBatches=count):
                    self.pipec(0, "pipe-run", folder / "model.pipe", "--inputs", folder / "inputs.pt", "--microbatches", count, "--threads", 1,
                               "--expect", folder / "expected.pt", saying="PASSED")

    def testTrain(self):
        """A step and an evaluation behind it: gradients, state and loss of plain PyTorch, within the tolerance of the dtype."""
        for folder in TRAINED:
            self.trains(folder.name, folder / "model.pipe", folder)

    def testTrainFormat12(self):
        """No released version wrote trainings in format 1.2. The one in 1.3 without what 1.3 added is one."""
        folder = next(folder for folder in TRAINED if folder.name == "v1.3-training")
        shutil.rmtree("old.pipe", ignore_errors=True)
        shutil.copytree(folder / "model.pipe", "old.pipe")
        plan = Path("old.pipe/plan.json")
        document = json.loads(plan.read_text(encoding="utf-8"))
        document["format_version"]["minor"] = 2
        del document["training"]["costs"]
        self.assertNotIn("recompute_except_last", document["training"])
        plan.chmod(0o644)
        plan.write_text(json.dumps(document), encoding="utf-8")
        damage.manifest(Path("old.pipe"))
        self.trains("format 1.2", "old.pipe", folder)

    def trains(self, name, artifact, folder):
        """As the `expected.pt` of the folder says."""
        import torch

        for schedule in ("1f1b", "zb-h1"):
            with self.subTest(artifact=name, schedule=schedule):
                torch.save((torch.load(folder / "inputs.pt"), ()), "eval.pt")
                done = self.pipec(0, "pipe-run", artifact, "--train", "--inputs", folder / "inputs.pt", "--microbatches", 2, "--threads", 1,
                                  "--schedule", schedule, "--optimizer", "sgd,lr=0.1", "--eval-data", "eval.pt", "--emit-grads", "grads.pt", "--output",
                                  "state.pt", "--force", "--json")
                expected = torch.load(folder / "expected.pt")
                for kind, file in (("gradients", "grads.pt"), ("state", "state.pt")):
                    actual = torch.load(file)
                    self.assertEqual(set(actual), set(expected[kind]), kind)
                    for key, value in expected[kind].items():
                        torch.testing.assert_close(actual[key], value, msg=lambda text: f"{kind} of {key}: {text}")
                loss = json.loads(done.out[done.out.index("{\n"):])["eval"][0]["loss"]
                self.assertAlmostEqual(loss, expected["eval_loss"], places=5)

    def testCheck(self):
        if not e2e.have("pipe-check"):
            self.skipTest("pipe-check is not built")
        for folder in KEPT:
            with self.subTest(artifact=folder.name):
                self.pipec(0, "pipe-check", folder / "model.pipe", saying="PASSED")

    def testAgainst(self):
        """What was compiled is proved without a run, or there is no verdict: format 1.1 does not say what its numbers are about."""
        self.assertEqual(json.loads((e2e.SOURCE / "tests/artifacts/v1.1-residual/model.pipe/plan.json").read_text())["normalisation"]["forms"], ["4:0"])
        for folder in KEPT:
            with self.subTest(artifact=folder.name):
                command = ("pipe-check", folder / "model.pipe", "--against", folder / "model.pt")
                if folder.name == "v1.1-residual":
                    result = self.pipec(6, *command, saying=["format 1.1", "compile the model again"])
                    self.assertNotIn("other-", result.out + result.err)
                else:
                    self.pipec(0, *command, saying="byte by byte")

    def testRefused(self):
        """By all who read whole artifacts, with the same code and words, and before anything runs."""
        self.assertGreaterEqual(len(REFUSED), 7)
        self.assertLessEqual({5, 6}, {json.loads((folder / "refusal.json").read_text())["code"] for folder in REFUSED})
        model = e2e.SOURCE / "tests" / "artifacts" / "v1-mlp"
        for folder in REFUSED:
            refusal = json.loads((folder / "refusal.json").read_text())
            for tool, options in (("pipe-run", ["--inputs", model / "inputs.pt"]), ("pipe-check", []),
                                  ("pipe-merge", ["-o", "merged.pt"])):
                with self.subTest(artifact=folder.name, tool=tool):
                    result = self.pipec(refusal["code"], tool, folder / "model.pipe", *options, saying=refusal["saying"])
                    if tool == "pipe-run":
                        self.assertEqual(result.out, "", "it ran")

    def testTrainingsBeforeFormat12(self):
        """An artifact compiled for training says what is trained since format 1.2."""
        shutil.rmtree("old.pipe", ignore_errors=True)
        shutil.copytree(e2e.SOURCE / "tests/artifacts/v1.1-residual/model.pipe", "old.pipe")
        plan = Path("old.pipe/plan.json")
        document = json.loads(plan.read_text(encoding="utf-8"))
        document["mode"] = "train"
        plan.chmod(0o644)
        plan.write_text(json.dumps(document), encoding="utf-8")
        damage.manifest(Path("old.pipe"))
        self.refused(6, ["old.pipe: expected a plan that says what is trained, as format 1.2 does, got none", "help: compile the model again"], "pipe-run",
                     "old.pipe", "--train", "--inputs", e2e.SOURCE / "tests/artifacts/v1.1-residual/inputs.pt")

    def testNumbersAreLookedAt(self):
        """A weight that differs is seen in what is computed (and, before that, by the digests)."""
        import torch

        folder = next(folder for folder in KEPT if folder.name == "v1-mlp")
        expected = torch.load(folder / "expected.pt")
        expected.flatten()[3] += 0.01
        torch.save(expected, "wrong.pt")
        self.pipec(7, "pipe-run", folder / "model.pipe", "--inputs", folder / "inputs.pt", "--microbatches", 2, "--threads", 1,
                   "--expect", "wrong.pt", saying="FAILED: ")


if __name__ == "__main__":
    e2e.main()

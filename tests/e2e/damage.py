"""An artifact that is not as it was written is refused before any of it runs: exit code 5, and the file is named."""
import hashlib
import json
import os
import shutil
from pathlib import Path

import torch

import e2e

MODEL, INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs.pt"
USAGE, DAMAGED, VERSION = 2, 5, 6
INSPECT = [("pipe-inspect", []), ("pipe-inspect", ["--json"]), ("pipe-inspect", ["--html", "never.html", "--force"])]
TOOLS = [*INSPECT, ("pipe-run", ["--inputs", e2e.MODELS / "mlp.inputs4.pt"])] + ([("pipe-check", [])] if e2e.have("pipe-check") else [])


def manifest(artifact):
    """Makes MANIFEST true again, as an edit by hand could."""
    names = sorted(name for name in os.listdir(artifact) if name != "MANIFEST")
    lines = [f"{hashlib.sha256((artifact / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (artifact / "MANIFEST").write_text("".join(lines))


class Artifact(e2e.Case):
    """Each test damages a fresh copy."""
    whole = "whole.pipe"

    @classmethod
    def setUpClass(cls):
        if Path("whole.pipe").exists():
            return
        made = e2e.run("pipe-compile", MODEL, "--stages", 3, "--inputs", INPUTS, "-o", "whole.pipe")
        assert made.code == 0, made.err

    def setUp(self):
        self.artifact = Path("damaged.pipe")
        shutil.rmtree(self.artifact, ignore_errors=True)
        shutil.copytree(self.whole, self.artifact)

    def refusedByAll(self, *saying, code=DAMAGED):
        for tool, options in TOOLS:
            with self.subTest(tool=tool, options=options):
                result = self.pipec(code, tool, self.artifact, *options, saying=saying)
                self.assertNotRegex(result.out + result.err, r"(?i)terminate called|stack trace|\.cpp:\d")
                if tool != "pipe-check":
                    self.assertEqual(result.out, "", "it ran")

    def change(self, name, edit):
        path = self.artifact / name
        path.write_bytes(edit(path.read_bytes()))

    def editPlan(self, edit):
        """Changes the plan and makes MANIFEST fit again: only the plan's own sense can tell."""
        path = self.artifact / "plan.json"
        plan = json.loads(path.read_text())
        edit(plan)
        path.write_text(json.dumps(plan, indent=2, sort_keys=True) + "\n")
        manifest(self.artifact)


class Damage(Artifact):
    def testWhole(self):
        for tool, options in TOOLS:
            self.pipec(0, tool, "whole.pipe", *options)
        manifest(self.artifact)
        self.assertEqual(e2e.files(self.artifact), e2e.files("whole.pipe"), "MANIFEST is what sha256sum prints")

    def testMissing(self):
        for name in os.listdir("whole.pipe"):
            with self.subTest(file=name):
                self.setUp()
                (self.artifact / name).unlink()
                self.refusedByAll(name)

    def testExtra(self):
        (self.artifact / "stage-9.pt").write_bytes(b"more")
        self.refusedByAll("stage-9.pt")

    def testExtraHidden(self):
        (self.artifact / ".hidden").write_bytes(b"")
        self.refusedByAll(".hidden")

    def testExtraDirectory(self):
        (self.artifact / "folder").mkdir()
        self.refusedByAll("folder")

    def testOneBit(self):
        """In the middle of every file; in those of each kind also at both ends."""
        for name in sorted(os.listdir("whole.pipe")):
            size = (self.artifact / name).stat().st_size
            ends = {0, size - 1} if name in ("MANIFEST", "plan.json", "stage-0.pt") else set()
            for at in sorted({size // 2} | ends):
                with self.subTest(file=name, at=at):
                    self.setUp()
                    self.change(name, lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
                    # A digest that was changed in MANIFEST names the file that no longer fits it.
                    self.refusedByAll("damaged.pipe" if name == "MANIFEST" else name)

    def testTruncated(self):
        for name in sorted(os.listdir("whole.pipe")):
            with self.subTest(file=name):
                self.setUp()
                self.change(name, lambda data: data[:len(data) // 2])
                self.refusedByAll(name)

    def testEmptied(self):
        for name in ("MANIFEST", "plan.json", "stage-1.pt"):
            with self.subTest(file=name):
                self.setUp()
                self.change(name, lambda data: b"")
                self.refusedByAll(name)

    def testSwappedStages(self):
        a, b = self.artifact / "stage-0.pt", self.artifact / "stage-1.pt"
        first, second = a.read_bytes(), b.read_bytes()
        a.write_bytes(second)
        b.write_bytes(first)
        self.refusedByAll("stage-0.pt")

    def testSwappedStagesWithNewManifest(self):
        self.testSwappedStages()
        manifest(self.artifact)
        self.refusedByAll("stage-0.pt")

    def testStageOfAnotherArtifact(self):
        self.compiled(MODEL, "other.pipe", "--stages", 2, "--inputs", INPUTS)
        shutil.copy("other.pipe/stage-0.pt", self.artifact / "stage-0.pt")
        manifest(self.artifact)
        self.refusedByAll("stage-0.pt")

    def testStageThatIsNoModel(self):
        self.change("stage-1.pt", lambda data: b"not TorchScript" * 10)
        manifest(self.artifact)
        self.refusedByAll("stage-1.pt")

    def testLink(self):
        path = self.artifact / "stage-1.pt"
        shutil.copy(path, "elsewhere.pt")
        path.unlink()
        path.symlink_to(Path("elsewhere.pt").resolve())
        self.refusedByAll("stage-1.pt", "link")

    def testPathOutOfTheArtifact(self):
        shutil.copy("whole.pipe/stage-1.pt", "outside.pt")
        self.editPlan(lambda plan: plan["stages"][1].update(file="../outside.pt"))
        self.refusedByAll("plan.json", "../outside.pt")


EDITS = {
    "channel that leads nowhere": lambda plan: plan["channels"][0].update(to=[]),
    "channel to a stage that is not there": lambda plan: plan["channels"][0]["to"][0].update(stage=7),
    "channel to a port that is not there": lambda plan: plan["channels"][0]["to"][0].update(port=3),
    "channel that leads back": lambda plan: plan["channels"][1].update({"from": {"stage": 2, "port": 0}, "to": [{"stage": 1, "port": 0}]}),
    "channel without a sender": lambda plan: plan["stages"][0]["outputs"][0].update(channels=[]),
    "input of a channel that is not there": lambda plan: plan["stages"][1]["inputs"][0].update(channel=5),
    "input that is not the model's": lambda plan: plan["stages"][0]["inputs"][0].update(input=4),
    "leaf that is made twice": lambda plan: plan["stages"][0]["outputs"][0].update(leaves=[0]),
    "leaf without a maker": lambda plan: plan["stages"][2]["outputs"][0].update(leaves=[]),
    "stage on a rank that is not there": lambda plan: plan["stages"][1].update(rank=9),
    "rank without a stage": lambda plan: plan.update(ranks=4),
    "two stages in one file": lambda plan: plan["stages"][1].update(file="stage-0.pt"),
    "types that do not fit": lambda plan: plan["channels"][0].update(type="int"),
    "fewer stages": lambda plan: plan["stages"].pop(),
    "no stages": lambda plan: plan.update(stages=[]),
    "no micro-batches": lambda plan: plan.update(microbatches=0),
    "key that is not known": lambda plan: plan.update(colour="red"),
    "key that is missing": lambda plan: plan.pop("signature"),
    "value of another type": lambda plan: plan.update(ranks="three"),
    "number that is negative": lambda plan: plan["stages"][0].update(rank=-1),
    "text that is no size": lambda plan: plan["channels"][0]["tensor"].update(shape=["B*B", 64]),
    "schedule that is not there": lambda plan: plan.update(schedule="made-up"),
    "attribute that the stage lacks": lambda plan: plan["stages"][0]["attributes"][0].update(name="layers.77.weight"),
    "weight that is never passed": lambda plan: plan["stages"][0]["attributes"][0].update(uses=0),
}


class Tied(torch.nn.Module):
    """Two weights with two names each, and two skips."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6))
        self.l[4].weight, self.l[5].weight = self.l[0].weight, self.l[1].weight

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        k = x
        j = x
        for i, m in enumerate(self.l):
            x = torch.tanh(m(x))
            if i == 0:
                k = x
            if i == 1:
                j = x
        return torch.nn.functional.mse_loss(x + k * j, t)


def shorter(plan):
    for parameter in plan["training"]["parameters"]:
        parameter["uses"] = parameter["uses"][:1]


def several(plan):
    plan["ties"][0].update(owner=4)
    plan["channels"][0].update(skip=not plan["channels"][0]["skip"])
    plan["training"]["parameters"].pop()


# Each would train another model without a word: a gradient that is not added, a parameter that is not trained.
TRAININGS = {
    "no ties": (lambda plan: plan.update(ties=[]), "l.0.weight"),
    "a tie is left out": (lambda plan: plan["ties"].pop(), "l.1.weight"),
    "a use is left out": (shorter, "parameter l.0.weight"),
    "a name is left out": (lambda plan: plan["training"]["parameters"][0].update(other_names=[]), "l.4.weight"),
    "a name is invented": (lambda plan: plan["training"]["parameters"][1].update(other_names=["ghost"]), "expected an attribute ghost of some stage, got none"),
    "a parameter is left out": (lambda plan: plan["training"]["parameters"].pop(3), "attribute l.1.bias: requires a gradient, but is none of the trained parameters"),
    "another shape": (lambda plan: plan["training"]["parameters"][0].update(shape=[8, 9]), "parameter l.0.weight: shape: expected one of 256 bytes"),
    "other strides": (lambda plan: plan["training"]["parameters"][0].update(strides=[1, 8]), "strides [1, 8] as trained parameter l.0.weight, got float32[8, 8] with strides [8, 1]"),
    "several faults": (several, ["faults: ", "channel 0 ", "skip: expected", "owner: expected its first stage, 0, got 4", "l.5.bias: requires a gradient"]),
}


class Trainings(Artifact):
    whole = "transmit.pipe"

    @classmethod
    def setUpClass(cls):
        torch.manual_seed(1)
        torch.jit.script(Tied()).save("tied.pt")
        torch.save((torch.randn(8, 8), torch.randn(8, 8)), "tied.batch.pt")
        for tied in ("transmit", "replicate"):
            made = e2e.run("pipe-compile", "tied.pt", "--train", "--at", "l.1,l.2,l.3,l.4,l.5", "--inputs", "tied.batch.pt", "--cost", "analytic", "--schedule", "1f1b",
                           "--tied", tied, "-o", f"{tied}.pipe", "--force")
            assert made.code == 0, made.err

    def testEdits(self):
        for tied in ("transmit", "replicate"):
            self.whole = f"{tied}.pipe"
            for what, (edit, saying) in TRAININGS.items():
                self.setUp()
                self.editPlan(edit)
                for command in (["pipe-check"], ["pipe-run", "--train", "--inputs", "tied.batch.pt"]):
                    with self.subTest(tied=tied, plan=what, tool=command[0]):
                        self.pipec(DAMAGED, command[0], self.artifact, *command[1:], saying=saying)

    def testAGradientThatThePlanDoesNotKnow(self):
        """Only a run shows whether a value has a gradient. The plan that says it has none passes a check, and the first step refuses it as a way that no example took."""
        self.whole = "transmit.pipe"
        outputs = [channel["from"] for channel in e2e.plan(self.whole)["channels"] if channel["kind"] == "activation"]
        for output in outputs:
            def edit(plan):
                for channel in plan["channels"]:
                    if channel["kind"] == "activation" and channel["from"] == output:
                        self.assertIs(channel["tensor"]["requires_grad"], True)
                        channel["tensor"]["requires_grad"] = False
            with self.subTest(output=output):
                self.setUp()
                self.editPlan(edit)
                self.pipec(0, "pipe-check", self.artifact)
                self.pipec(USAGE, "pipe-run", self.artifact, "--train", "--inputs", "tied.batch.pt",
                           saying=[f"step 1: stage {output['stage']} (", f"output {output['port']}: expected a tensor without a gradient, as the plan says, got one that requires it"])


class Plans(Artifact):
    """Plans that make no sense, in artifacts whose MANIFEST is right."""

    def testEdits(self):
        for what, edit in EDITS.items():
            with self.subTest(plan=what):
                self.setUp()
                self.editPlan(edit)
                self.refusedByAll("stage" if what.startswith(("attribute", "weight")) else "plan.json")

    def testSyntax(self):
        for what, edit in {"not JSON": lambda data: data[:-2], "key twice": lambda data: data.replace(b'{', b'{"ranks": 3,', 1),
                           "not UTF-8": lambda data: data.replace(b"layers.0", b"layers.\xff", 1), "deep": lambda data: b"[" * 100000,
                           "float for a count": lambda data: data.replace(b'"ranks": 3', b'"ranks": 3.5')}.items():
            with self.subTest(plan=what):
                self.setUp()
                self.change("plan.json", edit)
                manifest(self.artifact)
                self.refusedByAll("plan.json")

    def testVersions(self):
        self.editPlan(lambda plan: plan["format_version"].update(major=2))
        self.refusedByAll("2", "1", code=VERSION)
        self.setUp()
        self.editPlan(lambda plan: plan.update(required_features=["telepathy"]))
        self.refusedByAll("telepathy", code=VERSION)

    def testVersionsOfWhatWroteIt(self):
        """What is no version is damage; another LibTorch is named, and the artifact runs."""
        for key in ("torch_version", "tool_version"):
            for text in ("", "banana", "2", "2.11", "2.11.0.0", "02.11.0", "2.11.0\n", "2.11.0 ", "-1.0.0", "2.11.0+", "9999999.0.0"):
                with self.subTest(key=key, version=text):
                    self.setUp()
                    self.editPlan(lambda plan: plan.update({key: text}))
                    self.refusedByAll("plan.json", key, "expected a version")
        ours = e2e.plan(Path("whole.pipe"))["torch_version"]
        for other in ("2.6.0", "3.0.0", "2.99.0a0+git1234", ours + ".post1"):
            with self.subTest(other=other):
                self.setUp()
                self.editPlan(lambda plan: plan.update(torch_version=other))
                for tool, options in TOOLS:
                    result = self.pipec(0, tool, self.artifact, *options)
                    self.assertIn(f"warning: {self.artifact}: compiled with LibTorch {other}, this is LibTorch {ours}", result.err)
        self.setUp()
        self.editPlan(lambda plan: plan.update(torch_version=ours + "+cu130"))  # another build of the same
        for tool, options in TOOLS:
            self.assertNotIn("warning", self.pipec(0, tool, self.artifact, *options).err)

    def testNewerMinor(self):
        """Loads; what is not known is warned of."""
        def newer(plan):
            plan["format_version"]["minor"] = 99
            plan["colour"] = "red"
        self.editPlan(newer)
        for tool, options in TOOLS:
            self.pipec(0, tool, self.artifact, *options, saying=["warning: ", "colour"])


if __name__ == "__main__":
    e2e.main()

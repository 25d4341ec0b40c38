"""Bytes that a terminal obeys, planted wherever text of a file or of the command line is printed: they arrive as text."""
import hashlib
import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Dict

import torch
from torch import nn

import e2e

MODEL, INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs.pt"
ASCII = "\x1b[31m\x07\x08\r\x7f"
LETTERS = "\u202e\u2066\ufeff\u009b\u200b"
BAD = ASCII + LETTERS
ESCAPED = r"\x1b[31m\x07\x08\x0d"  # in a message; JSON has \u001b
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class Keys(nn.Module):
    """Names that only a string in the model's text can have."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x) -> Dict[str, torch.Tensor]:
        y = self.b(self.a(x).relu())
        if bool(y.size(0) == 7):
            raise RuntimeError("seven \x1b[31m samples")
        return {"log\x1b[31mits\x07": y, "two\nlines": y + 1}


def manifest(artifact):
    names = sorted(name for name in os.listdir(artifact) if name != "MANIFEST")
    lines = [f"{hashlib.sha256((artifact / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (artifact / "MANIFEST").write_text("".join(lines), encoding="utf-8")


class ForeignText(e2e.Case):
    def harmless(self, *saying, tool, arguments, code=None):
        """Nothing that is printed is obeyed, and there is one error at most."""
        result = e2e.run(tool, *arguments)
        shown = f"\n$ {tool} {arguments!r}\nexit code {result.code}\n{result.out!r}\n{result.err!r}"
        self.assertIsNone(OBEYED.search(result.out + result.err), shown)
        self.assertLessEqual(len(re.findall(r"(?m)^error: ", result.err)), 1, shown)
        if code is not None:
            self.assertEqual(result.code, code, shown)
        for text in saying:
            self.assertIn(text, result.out + result.err, shown)
        return result

    @classmethod
    def setUpClass(cls):
        torch.jit.script(Keys().eval()).save("keys.pt")
        for model, target, options in ((MODEL, "whole.pipe", ["--stages", 2, "--inputs", INPUTS]),
                                       ("keys.pt", "keys.pipe", ["--at", "b", "--inputs", "f32[4,8]"])):
            made = e2e.run("pipe-compile", model, "-o", target, *options)
            assert made.code == 0, made.err

    def testNamesOfFiles(self):
        for name in (f"no{BAD}.pt", b"caf\xe9\x1b.pt".decode("utf-8", "surrogateescape")):
            for exists in (False, True):
                if exists:
                    shutil.copy(MODEL, name)
                for tool, more in (("pipe-compile", ["--at", "head", "-o", f"out{BAD}.pipe", "--force"]), ("pipe-run", ["--inputs", INPUTS]),
                                   ("pipe-inspect", []), ("pipe-check", []), ("pipe-schedule", []), ("pipe-opt", []),
                                   ("pipe-merge", ["-o", f"merged{BAD}.pt"])):
                    with self.subTest(tool=tool, exists=exists):
                        self.harmless(tool=tool, arguments=[name, *more])
        for tool, more in (("pipe-check", []), ("pipe-inspect", []), ("pipe-inspect", ["--json"]), ("pipe-run", ["--inputs", INPUTS])):
            self.harmless(tool=tool, arguments=[f"out{BAD}.pipe", *more], code=0)

    def testLineEndsInNamesAreNone(self):
        name = "one\nerror: two.pt"
        self.harmless(r"one\nerror: two.pt", tool="pipe-compile", arguments=[name, "--at", "head"], code=8)
        self.harmless(r"one\nerror: two", tool="pipe-compile", arguments=[MODEL, "--at", "one\nerror: two"], code=2)
        self.harmless(r"one\nerror: two", tool="pipe-run", arguments=[MODEL, "--inputs", INPUTS, "--batch-dim=one\nerror: two=0"], code=2)

    def testOptions(self):
        for options in (["--at", BAD], ["--stages", BAD], ["--batch-dim", f"{BAD}=0"], ["--schedule", BAD], ["--cluster", BAD], ["--cost", BAD],
                        [f"--{BAD}", "1"], ["--inputs", BAD], ["--method", BAD], ["--at", "head", BAD], ["--tied", f"{BAD}=transmit"]):
            with self.subTest(options=options):
                self.harmless(tool="pipe-compile", arguments=[MODEL, "--dry-run", *options])
        for tool, arguments in (("pipe-schedule", [BAD]), ("pipe-schedule", ["1f1b", "--costs", f"{BAD}=1"]), ("pipe-opt", [MODEL, "--passes", BAD]),
                                ("pipe-run", [MODEL, "--inputs", INPUTS, "--device", BAD])):
            with self.subTest(tool=tool, arguments=arguments):
                self.harmless(ESCAPED, tool=tool, arguments=arguments)

    def testTablesAndCosts(self):
        Path("table.csv").write_text(f"0F0,{BAD}\n", encoding="utf-8")
        self.harmless(ESCAPED, tool="pipe-schedule", arguments=["table.csv"])
        self.harmless(ESCAPED, tool="pipe-run", arguments=["whole.pipe", "--inputs", INPUTS, "--schedule", "table.csv"])
        for text in (json.dumps({"schema_version": 1, BAD: 2}, ensure_ascii=False), json.dumps({BAD: BAD}, ensure_ascii=False),
                     json.dumps({"schema_version": BAD}, ensure_ascii=False), BAD, f'{{"{LETTERS}": 1, "{LETTERS}": 2}}'):
            Path("bad.json").write_text(text, encoding="utf-8")
            for tool, arguments in (("pipe-schedule", ["1f1b", "--costs", "bad.json"]),
                                    ("pipe-compile", [MODEL, "--inputs", INPUTS, "--stages", 2, "--dry-run", "--cost", "bad.json"]),
                                    ("pipe-compile", [MODEL, "--inputs", INPUTS, "--stages", 2, "--dry-run", "--cluster", "bad.json"])):
                with self.subTest(tool=tool, json=text):
                    self.assertNotEqual(self.harmless(tool=tool, arguments=arguments).code, 0)
        Path("model.ir").write_text(f"model {BAD}\n", encoding="utf-8")
        self.harmless(tool="pipe-opt", arguments=["model.ir", "--passes", "inline"])

    def testArtifacts(self):
        def spoilt(edit):
            artifact = Path("spoilt.pipe")
            shutil.rmtree(artifact, ignore_errors=True)
            shutil.copytree("whole.pipe", artifact)
            edit(artifact)
            return artifact

        def inPlan(change):
            def edit(artifact):
                plan = json.loads((artifact / "plan.json").read_text())
                change(plan)
                (artifact / "plan.json").write_text(json.dumps(plan, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
                manifest(artifact)
            return edit

        edits = {
            "key": inPlan(lambda plan: plan.update({BAD: 1})),
            "line end in a key": inPlan(lambda plan: plan.update({"a\nerror: b": 1})),
            "schedule": inPlan(lambda plan: plan.update(schedule=BAD)),
            "version": inPlan(lambda plan: plan.update(torch_version=BAD)),
            "feature": inPlan(lambda plan: plan.update(required_features=[BAD])),
            "name of a channel": inPlan(lambda plan: plan["channels"][0].update(name=BAD)),
            "name of an input": inPlan(lambda plan: plan["signature"]["inputs"][0].update(name=BAD)),
            "module": inPlan(lambda plan: plan["stages"][0].update(first_module=BAD, last_module="two\nerror: lines")),
            "file": inPlan(lambda plan: plan["stages"][0].update(file=BAD)),
            "attribute": inPlan(lambda plan: plan["stages"][0]["attributes"][0].update(name=BAD)),
            "line of MANIFEST": lambda artifact: (artifact / "MANIFEST").write_bytes((artifact / "MANIFEST").read_bytes() + BAD.encode() + b"\n"),
            "name in MANIFEST": lambda artifact: (artifact / "MANIFEST").write_bytes(
                (artifact / "MANIFEST").read_bytes() + b"0" * 64 + b"  zz" + LETTERS.encode() + b"\n"),
            "extra file": lambda artifact: (artifact / f"{BAD}\nerror: x").write_bytes(b""),
            "schedule table": lambda artifact: ((artifact / "schedule.csv").write_text(f"0F0,{BAD}\n", encoding="utf-8"), manifest(artifact)),
            "stage that is another zip": lambda artifact: (self.zipWith(artifact / "stage-0.pt", f"a/{BAD}"), manifest(artifact)),
        }
        for what, edit in edits.items():
            artifact = spoilt(edit)
            for tool, more in (("pipe-check", []), ("pipe-check", ["--json"]), ("pipe-check", ["--against", "whole.pipe"]), ("pipe-inspect", []),
                               ("pipe-inspect", ["--json"]), ("pipe-inspect", ["--schedule"]), ("pipe-inspect", ["--html", "page.html", "--force"]),
                               ("pipe-run", ["--inputs", INPUTS]), ("pipe-merge", ["-o", "merged.pt", "--force"])):
                with self.subTest(spoilt=what, tool=tool, more=more):
                    result = self.harmless(tool=tool, arguments=[artifact, *more])
                    if "--json" in more and result.out:
                        json.loads(result.out)
            if Path("page.html").exists():
                self.assertIsNone(OBEYED.search(Path("page.html").read_text(encoding="utf-8")), what)
                Path("page.html").unlink()

    def zipWith(self, path, name):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "x")
        return path

    def testOtherZip(self):
        self.harmless(tool="pipe-run", arguments=[self.zipWith("other.zip", f"a/{BAD}"), "--inputs", INPUTS], code=3)

    def testKeysOfResults(self):
        """Strings of the model: keys of its result, and what it raises."""
        torch.save({"log\x1b[31mits\x07": torch.zeros(4, 8), "two\nlines": torch.zeros(4, 8)}, "expected.pt")
        for model in ("keys.pt", "keys.pipe"):
            for more in ([], ["--json"]):
                result = self.harmless(tool="pipe-run", arguments=[model, "--inputs", "f32[4,8]", "--output", "out.pt", "--force", *more], code=0)
                if more:
                    json.loads(result.out)
            self.harmless(r"\x1b[31m", tool="pipe-run", arguments=[model, "--inputs", "f32[7,8]", "--microbatches", 1])
            self.harmless(tool="pipe-run", arguments=[model, "--inputs", "f32[4,8]", "--expect", "expected.pt"], code=7)
        self.assertEqual(list(torch.load("out.pt")), ["log\x1b[31mits\x07", "two\nlines"], "in a file they are as they were")
        self.harmless(r'"log\u001b[31mits\u0007"', tool="pipe-inspect", arguments=["keys.pipe"], code=0)
        self.harmless(tool="pipe-inspect", arguments=["keys.pipe", "--html", "keys.html"], code=0)
        self.assertIsNone(OBEYED.search(Path("keys.html").read_text(encoding="utf-8")))
        self.harmless(tool="pipe-opt", arguments=["keys.pt", "--passes", "inline,lower-attributes"], code=0)
        self.harmless(tool="pipe-compile", arguments=["keys.pt", "--at", "b", "--dry-run", "--print-after", "all"], code=0)

    def testKeysOfInputs(self):
        torch.save({f"x{BAD}": torch.ones(2, 64)}, "named.pt")
        self.harmless(ESCAPED, tool="pipe-run", arguments=[MODEL, "--inputs", "named.pt"], code=2)
        torch.save(({f"x{BAD}": torch.ones(2, 64)},), "nested.pt")
        self.harmless(tool="pipe-run", arguments=[MODEL, "--inputs", "nested.pt"], code=2)
        torch.save((BAD,), "text.pt")
        self.harmless(tool="pipe-run", arguments=[MODEL, "--inputs", "text.pt"], code=2)


if __name__ == "__main__":
    e2e.main()

"""Recorded cases: pipe-compile --record-case writes what the unsplit model computes, pipe-check --case holds an artifact to it; the CMake
function makes CTest tests of artifacts."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import torch

import e2e
import odd_models
import state_models

USAGE, UNREADABLE, DAMAGED, MISMATCH, IO = 2, 3, 5, 7, 8
MLP = [e2e.MODELS / "mlp.pt", "--stages", 3, "--inputs", e2e.MODELS / "mlp.inputs.pt"]


class Recorded(e2e.Case):
    def record(self, name, *arguments):
        for path in (f"{name}.pipe", f"{name}.case"):
            shutil.rmtree(path, ignore_errors=True)
        self.pipec(0, "pipe-compile", *arguments, "-o", f"{name}.pipe", "--record-case", f"{name}.case", saying=f"recorded {name}.case")
        return json.loads(Path(f"{name}.case/case.json").read_text())

    def editCase(self, name, **changes):
        path = Path(f"{name}.case/case.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class Cases(Recorded):
    def testRecordAndCheck(self):
        case = self.record("mlp", *MLP)
        self.assertEqual(sorted(os.listdir("mlp.case")), ["case.json", "inputs.pt", "outputs.pt"])
        self.assertEqual(case["source_digest"], e2e.plan("mlp.pipe")["source_digest"])
        self.assertEqual((case["microbatches"], case["threads"], case["rtol"]), (3, 1, None))
        self.pipec(0, "pipe-check", "mlp.pipe", "--case", "mlp.case", saying=["PASSED", "3 micro-batches"])
        self.editCase("mlp", rtol=0, atol=0)  # on the machine that recorded it every bit is the same
        self.pipec(0, "pipe-check", "mlp.pipe", "--case", "mlp.case", saying="PASSED")
        document = json.loads(self.pipec(0, "pipe-check", "mlp.pipe", "--case", "mlp.case", "--json").out)
        self.assertEqual(document["checks"][-1]["name"], "case")

    def testWithALoss(self):
        """The case holds what the model joined with its loss returns."""
        torch.jit.script(torch.nn.MSELoss()).save("loss.pt")
        model, (x,) = torch.jit.load(e2e.MODELS / "mlp.pt"), torch.load(e2e.MODELS / "mlp.inputs.pt")
        torch.save((x, torch.zeros_like(model(x))), "with-target.pt")
        self.record("joined", e2e.MODELS / "mlp.pt", "--infer", "--loss", "loss.pt", "--stages", 3, "--inputs", "with-target.pt")
        self.assertEqual(torch.load("joined.case/outputs.pt").shape, ())
        self.pipec(0, "pipe-check", "joined.pipe", "--case", "joined.case", saying="PASSED")

    def testItIsWhatPlainPyTorchComputes(self):
        self.record("mlp", *MLP)
        inputs = torch.load("mlp.case/inputs.pt")
        self.assertEqual(inputs[0].shape[0], 6)  # the example's two samples, once per micro-batch
        results = e2e.reference(torch.jit.load(e2e.MODELS / "mlp.pt"), inputs, 3)
        self.sameBits(e2e.concatenate(results), torch.load("mlp.case/outputs.pt"))

    def testOtherNumbers(self):
        self.record("mlp", *MLP)
        outputs = torch.load("mlp.case/outputs.pt")
        before = outputs[4, 1].item()
        outputs[4, 1] += 0.5
        torch.save(outputs, "mlp.case/outputs.pt")
        result = self.pipec(MISMATCH, "pipe-check", "mlp.pipe", "--case", "mlp.case", saying=["FAILED: ", "[4,1]"])
        values = re.search(r"expected ([-0-9.e]+), got ([-0-9.e]+)", result.out)
        self.assertAlmostEqual(float(values[1]), before + 0.5, places=4)
        self.assertAlmostEqual(float(values[2]), before, places=4)
        document = json.loads(self.pipec(MISMATCH, "pipe-check", "mlp.pipe", "--case", "mlp.case", "--json").out)
        self.assertEqual([finding["code"] for finding in document["findings"]], ["numbers"])

    def testAnotherModelsCase(self):
        """Another digest alone is no failure, other numbers are."""
        self.record("mlp", *MLP)
        self.editCase("mlp", source_digest="sha256:" + "0" * 64)
        self.pipec(0, "pipe-check", "mlp.pipe", "--case", "mlp.case", saying=["PASSED", "recorded with another model, or"])
        self.compiled(e2e.MODELS / "lstm.pt", "lstm.pipe", "--stages", 2, "--inputs", e2e.MODELS / "lstm.inputs.pt")
        self.refused(2, "error: --case: mlp.case, recorded with another model, or", "pipe-check", "lstm.pipe", "--case", "mlp.case")
        torch.manual_seed(1)
        model = torch.jit.load(e2e.MODELS / "mlp.pt")
        with torch.no_grad():
            next(model.parameters()).add_(1)
        model.save("trained.pt")
        self.compiled("trained.pt", "trained.pipe", "--stages", 3, "--inputs", e2e.MODELS / "mlp.inputs.pt")
        self.pipec(MISMATCH, "pipe-check", "trained.pipe", "--case", "mlp.case", saying="FAILED: ")

    def testStateModesAndTrees(self):
        torch.manual_seed(7)
        torch.jit.script(state_models.WrittenIsReturned()).save("state.pt")
        torch.jit.script(odd_models.Mixed().train()).save("mixed.pt")
        torch.jit.script(odd_models.Trees().eval()).save("trees.pt")
        x = torch.randn(2, 16)
        torch.save((x, (x + 1, [x + 2, x + 3])), "trees-in.pt")
        for name, arguments in {"state": ["state.pt", "--stages", 3, "--inputs", "f32[2,4]"], "trees": ["trees.pt", "--at", "b,c", "--inputs", "trees-in.pt"],
                                "mixed": ["mixed.pt", "--stages", 2, "--inputs", "f32[4,8]", "--infer"]}.items():
            with self.subTest(model=name):
                self.record(name, *arguments)
                self.editCase(name, rtol=0, atol=0)
                self.pipec(0, "pipe-check", f"{name}.pipe", "--case", f"{name}.case", saying="PASSED")

    def testNothingIsOverwritten(self):
        self.record("mlp", *MLP)
        before = e2e.files("mlp.case")
        shutil.rmtree("second.pipe", ignore_errors=True)
        self.refused(USAGE, ["mlp.case", "--force"], "pipe-compile", *MLP, "-o", "second.pipe", "--record-case", "mlp.case")
        self.assertFalse(Path("second.pipe").exists(), "refused before anything is compiled")
        self.assertEqual(e2e.files("mlp.case"), before)
        Path("mlp.case/mine.txt").write_text("mine")
        self.refused(USAGE, ["mine.txt"], "pipe-compile", *MLP, "-o", "second.pipe", "--record-case", "mlp.case", "--force")
        Path("mlp.case/mine.txt").unlink()
        self.pipec(0, "pipe-compile", *MLP, "-o", "second.pipe", "--record-case", "mlp.case", "--force")
        self.assertEqual([name for name in os.listdir(".") if ".tmp-" in name], [])

    def testUsage(self):
        self.refused(USAGE, "--inputs", "pipe-compile", e2e.MODELS / "mlp.pt", "--stages", 2, "-o", "never.pipe", "--record-case", "never.case")
        self.refused(USAGE, "--dry-run", "pipe-compile", *MLP, "-o", "never.pipe", "--record-case", "never.case", "--dry-run")
        self.refused(USAGE, "--record-case: expected a compile for inference, got --train", "pipe-compile", *MLP, "-o", "never.pipe", "--record-case", "never.case",
                     "--train")
        self.assertFalse(Path("never.case").exists() or Path("never.pipe").exists())

    def testDamagedCases(self):
        self.record("mlp", *MLP)
        check = ["pipe-check", "mlp.pipe", "--case"]
        self.refused(IO, "missing.case", *check, "missing.case")
        self.refused(IO, ["case.json", "help: pass the directory that pipe-compile --record-case wrote"], *check, "mlp.pipe")
        path = Path("mlp.case/case.json")
        whole = path.read_text()
        for what, edit in {"no number": {"microbatches": "three"}, "too few": {"microbatches": 0}, "path": {"inputs": "../inputs.pt"},
                           "negative": {"rtol": -1}, "newer": {"schema_version": 2}, "unknown": {"colour": "red"}}.items():
            with self.subTest(case=what):
                path.write_text(whole)
                self.editCase("mlp", **edit)
                self.refused(UNREADABLE, ["case.json", next(iter(edit))], *check, "mlp.case")
        path.write_text("{")
        self.refused(UNREADABLE, "case.json", *check, "mlp.case")
        path.write_text(whole)
        Path("mlp.case/outputs.pt").unlink()
        self.refused(IO, "outputs.pt", *check, "mlp.case")
        Path("mlp.pipe/stage-0.pt").write_bytes(b"")
        self.pipec(DAMAGED, *check, "mlp.case", saying=["not reached", "FAILED: "])


PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
enable_testing()
include({source}/cmake/PipecArtifactTest.cmake)
pipec_add_artifact_test(NAME whole ARTIFACT mlp.pipe)
pipec_add_artifact_test(NAME numbers ARTIFACT mlp.pipe CASE mlp.case)
pipec_add_artifact_test(NAME source ARTIFACT mlp.pipe AGAINST {models}/mlp.pt)
pipec_add_artifact_test(NAME changes ARTIFACT mlp.pipe AGAINST mlp.pipe)
pipec_add_artifact_test(NAME other-numbers ARTIFACT other.pipe CASE mlp.case)
pipec_add_artifact_test(NAME other-source ARTIFACT other.pipe AGAINST {models}/mlp.pt)
pipec_add_artifact_test(NAME other-changes ARTIFACT other.pipe AGAINST mlp.pipe)
"""


class CMake(Recorded):
    def testFunction(self):
        cmake, ctest = shutil.which("cmake"), shutil.which("ctest")
        if not cmake or not ctest:
            self.skipTest("no cmake")
        self.record("mlp", *MLP)
        model = torch.jit.load(e2e.MODELS / "mlp.pt")
        with torch.no_grad():
            next(model.parameters()).add_(1)
        model.save("other.pt")
        self.compiled("other.pt", "other.pipe", "--stages", 3, "--inputs", e2e.MODELS / "mlp.inputs.pt")
        Path("CMakeLists.txt").write_text(PROJECT.format(source=e2e.SOURCE, models=e2e.MODELS))
        subprocess.run([cmake, "-S", ".", "-B", "user-build", f"-DPIPEC_CHECK={e2e.BIN / 'pipe-check'}"], check=True, capture_output=True)
        done = subprocess.run([ctest, "--test-dir", "user-build"], capture_output=True, text=True)
        verdicts = dict(re.findall(r"Test +#\d+: (\S+) \.+ *(Passed|\*\*\*Failed)", done.stdout))
        self.assertEqual(verdicts, {"whole": "Passed", "numbers": "Passed", "source": "Passed", "changes": "Passed", "other-numbers": "***Failed",
                                    "other-source": "***Failed", "other-changes": "***Failed"}, done.stdout)


if __name__ == "__main__":
    e2e.main()

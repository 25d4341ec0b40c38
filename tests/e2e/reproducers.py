"""What an internal error leaves: every command exits 70 with one error, and a directory that says what happened and holds no weights."""
import re
import resource
import signal
import subprocess
import time
import unittest
from pathlib import Path

import e2e

MODEL, INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs.pt"
INTERNAL, USAGE, IO = 70, 2, 8
HAVE_FAULTS = e2e.run("pipe-opt", "--list-passes", "--planted-error", cwd="/proc").code == INTERNAL  # where nothing can be left
TEXT = """model {
  attribute w parameter float32[4,4] requires_grad data=@weights.bin
  graph(%x : Tensor, %w : Tensor):
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::relu(%1)
    return (%1)
}
"""


@unittest.skipUnless(HAVE_FAULTS, "no planted faults in this build")
class Reproducers(e2e.Case):
    def setUp(self):
        self.directory = Path.cwd() / self.id().removeprefix("__main__.")
        self.directory.mkdir()

    def leave(self, tool, *arguments, **how):
        """Runs a command that fails as a fault of pipec would; returns what it left."""
        result = self.pipec(INTERNAL, tool, *arguments, "--planted-error", cwd=self.directory, **how)
        self.assertIn(f"\nerror: {tool}: planted error\n", "\n" + result.err)
        name, = e2e.leftovers(self.directory, self.known)
        self.known.append(name)
        self.assertIn(f"please report it with ./{name}", result.err)
        readme = (self.directory / name / "README.txt").read_text()
        for text in (f"error: {tool}: planted error\n", "pipec 0.", "LibTorch 2.", f"command {e2e.BIN / tool} ", "--planted-error"):
            self.assertIn(text, readme)
        return self.directory / name

    @property
    def known(self):
        return self.__dict__.setdefault("names", [])

    def testEveryCommand(self):
        plan = self.compiled(MODEL, "mlp.pipe", "--at", "layers.8", "--inputs", INPUTS)
        artifact = Path("mlp.pipe").resolve()
        ofArtifact = ["MANIFEST", "README.txt", "plan.json", "schedule.csv"]
        for number, (tool, arguments, left) in enumerate((("pipe-compile", [MODEL, "--at", "layers.8", "--dry-run"],
                                                           ["README.txt", "passes", "pipeline.txt"]),
                                                          ("pipe-run", [MODEL, "--inputs", INPUTS], ["README.txt"]),
                                                          ("pipe-run", [artifact, "--inputs", INPUTS, "--microbatches", 1], ofArtifact),
                                                          ("pipe-check", [artifact], ofArtifact),
                                                          ("pipe-inspect", [artifact], ofArtifact),
                                                          ("pipe-inspect", [MODEL], ["README.txt"])), 1):
            with self.subTest(tool=tool, of=left):
                made = self.leave(tool, *arguments)
                self.assertEqual(made.name, f"pipec-reproducer-{number}", "the first free number")
                self.assertEqual(sorted(path.name for path in made.iterdir()), left)
                if left == ofArtifact:
                    self.assertEqual(e2e.plan(made), plan)

    def replay(self, made, *arguments):
        passes = (made / "pipeline.txt").read_text()
        return self.pipec(0, "pipe-opt", made / "input.ir", *arguments, "--passes", passes).out

    def testTextIsReplayed(self):
        (self.directory / "model.ir").write_text(TEXT.replace("@weights.bin", "seed(1)"))
        self.known.append("model.ir")
        made = self.leave("pipe-opt", "model.ir", "--passes", "dead-code")
        self.assertEqual((made / "input.ir").read_bytes(), (self.directory / "model.ir").read_bytes())
        self.assertNotIn("relu", self.replay(made))

    def testWeightsStayWhereTheyAre(self):
        (self.directory / "weights.bin").write_bytes(bytes(64))
        (self.directory / "model.ir").write_text(TEXT)
        self.known.extend(["weights.bin", "model.ir"])
        made = self.leave("pipe-opt", "model.ir", "--passes", "dead-code", "--data", self.directory)
        self.assertNotIn("weights.bin", (made / "input.ir").read_text())
        self.assertNotIn("relu", self.replay(made))

    def testModuleIsReplayedFromItsText(self):
        made = self.leave("pipe-opt", MODEL, "--passes", "inline,lower-attributes,simplify")
        texts = sorted(path.name for path in (made / "passes").iterdir())
        self.assertEqual(texts[:2], ["01-inline.ir", "02-lower-attributes.ir"])
        self.pipec(0, "pipe-opt", made / "passes" / texts[1], "--passes", "simplify")

    def crashed(self, tool, *arguments, fault, by, code=INTERNAL, **how):
        """Runs a command that ends in a crash; returns what it left, which is one reproducer."""
        result = self.pipec(code, tool, *arguments, "--planted-fault", fault, cwd=self.directory, **how)
        self.assertIn(f"\nerror: {tool}: crashed: {by}\nhelp: this is an error in pipec, not in the model; please report it with ./pipec-reproducer-1",
                      "\n" + result.err)
        self.assertEqual(e2e.leftovers(self.directory, self.known), ["pipec-reproducer-1"])
        made = self.directory / "pipec-reproducer-1"
        readme = (made / "README.txt").read_text()
        for text in (f"error: {tool}: crashed: {by}\n", f"command {e2e.BIN / tool} ", f"--planted-fault {fault}", f"model {MODEL}"):
            self.assertIn(text, readme)
        return made

    def testCrashInAPass(self):
        """It comes again when the passes are run once more: what they had made before is there."""
        made = self.crashed("pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", fault="crash@choose-cuts", by="segmentation fault (signal 11)")
        self.assertEqual(sorted(path.name for path in made.iterdir()), ["README.txt", "passes", "pipeline.txt"])
        pipeline = (made / "pipeline.txt").read_text()
        self.assertIn("\nchoose-cuts{at=layers.8},", pipeline)
        before = max((made / "passes").iterdir())
        self.pipec(0, "pipe-opt", before, "--passes", "choose-cuts{at=layers.8}" + pipeline.split("choose-cuts{at=layers.8}")[1].strip())

    def testCrashAfterFiles(self):
        """Half of an artifact was written: it is gone."""
        for fault in ("crash", "deep-recursion"):
            with self.subTest(fault):
                made = self.crashed("pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", fault=fault, by="segmentation fault (signal 11)")
                self.assertIn("04-insert-transfers.ir", sorted(path.name for path in (made / "passes").iterdir()))
                made.rename(self.directory.parent / f"{self.directory.name}-{fault}")

    def testFailedCheck(self):
        """An assertion of ours stops the process, where builds have them."""
        result = e2e.run("pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", "--planted-fault", "assert", cwd=self.directory)
        if result.code == USAGE:
            self.skipTest("no assertions in this build")
        self.directory = self.directory.with_name(self.directory.name + "-again")
        self.directory.mkdir()
        self.crashed("pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", fault="assert", by="aborted (signal 6)")

    def testFileThatBecomesShorter(self):
        """While it is mapped: the next page of it that is read ends the process. No fault of pipec."""
        result = self.pipec(IO, "pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", "--planted-fault", "bus", cwd=self.directory,
                            saying="error: pipe-compile: a file became shorter while it was read, or its disk failed: bus error (signal 7)")
        self.assertNotIn("an error in pipec", result.err)
        self.assertEqual(e2e.leftovers(self.directory, []), [])

    def testCrashThatWasNone(self):
        """A foreign value in the variable that reports a crash is no crash, and removes nothing."""
        (self.directory / "kept").mkdir()
        self.pipec(0, "pipe-inspect", MODEL, env={"PIPEC_AFTER_CRASH": f"11\n{self.directory / 'kept'}"})
        self.assertTrue((self.directory / "kept").exists())

    def testTraceThatDoesNotEnd(self):
        """The passes that run once more after a crash end with the command."""
        command = [str(e2e.BIN / "pipe-compile"), str(MODEL), "--at", "layers.8", "-o", "out.pipe", "--planted-fault", "crash-then-hang@choose-cuts"]
        with subprocess.Popen(command, cwd=self.directory, stderr=subprocess.PIPE) as process:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            end = time.monotonic() + 60
            while not children.read_text() and time.monotonic() < end:
                time.sleep(0.05)
            child = int(children.read_text())
            process.terminate()
            self.assertEqual(process.wait(timeout=60), 128 + signal.SIGTERM)
            while Path(f"/proc/{child}").exists() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertFalse(Path(f"/proc/{child}").exists(), "the process that runs the passes lives on")
        self.assertEqual(e2e.leftovers(self.directory, ["crashed"]), [])  # the mark of the fault

    def testFullDisk(self):
        """Then there is no reproducer, and no part of one; the error is told all the same."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
        result = self.pipec(INTERNAL, "pipe-inspect", MODEL, "--planted-error", cwd=self.directory, before=limit)
        self.assertIn("error: pipe-inspect: planted error\nhelp: no reproducer: README.txt: cannot write: file too large\n", result.err)
        self.assertEqual(e2e.leftovers(self.directory, []), [])
        self.pipec(INTERNAL, "pipe-inspect", MODEL, "--planted-error", cwd="/proc", saying="no reproducer: .: cannot write: ")

    def testPlannedCutsAreReplayed(self):
        """From the last text before them; nothing in text knows what operators cost."""
        self.pipec(INTERNAL, "pipe-compile", MODEL, "--stages", 3, "--inputs", INPUTS, "-o", "out.pipe", "--planted-fault", "wrong-weight", cwd=self.directory)
        made = self.directory / "pipec-reproducer-1"
        texts = sorted(path.name for path in (made / "passes").iterdir())
        before = max(name for name in texts if name < next(name for name in texts if "choose-cuts" in name))
        cuts = (made / "pipeline.txt").read_text().splitlines()[-1]
        self.assertRegex(cuts, r"^choose-cuts\{stages=3,places=\d+:\d+\},")
        replayed = self.pipec(0, "pipe-opt", made / "passes" / before, "--passes", cuts).out
        operators = re.compile(r"^  stage|aten::\w+", re.M)
        self.assertEqual(operators.findall(replayed), operators.findall((made / "passes" / texts[-1]).read_text()))

    def testWeightsOnRequest(self):
        """With --reproducer-weights the model is there too, and pipe-opt starts from it."""
        result = self.pipec(INTERNAL, "pipe-compile", MODEL, "--at", "layers.8", "-o", "out.pipe", "--planted-fault", "wrong-weight", "--reproducer-weights",
                            cwd=self.directory, saying="./pipec-reproducer-1, which holds the model and its weights")
        made = self.directory / "pipec-reproducer-1"
        self.assertNotIn("no weights", result.err)
        self.assertEqual((made / "model.pt").read_bytes(), MODEL.read_bytes())
        self.pipec(0, "pipe-opt", made / "model.pt", "--passes", (made / "pipeline.txt").read_text(), saying="staged method=forward")

    def testCompileThatCannotWriteOne(self):
        """The proof fails, and the working directory takes nothing."""
        result = self.pipec(INTERNAL, "pipe-compile", MODEL, "--at", "layers.8", "-o", self.directory / "out.pipe", "--planted-fault", "wrong-weight",
                            cwd="/proc", saying="no reproducer: .: cannot write: ")
        self.assertEqual(len([line for line in result.err.splitlines() if line.startswith("error: ")]), 1, result.err)
        self.assertEqual(e2e.leftovers(self.directory, []), [])


if __name__ == "__main__":
    e2e.main()

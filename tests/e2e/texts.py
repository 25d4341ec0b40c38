"""Text is complete: what any pass leaves of any model prints, reads back, and prints the same again."""
import subprocess
from pathlib import Path

import torch

import e2e

NAMES = sorted(path.stem for path in e2e.MODELS.glob("*.pt") if "." not in path.stem)


def pipeOpt(text, *options):
    """What pipe-opt makes of a text."""
    done = subprocess.run([str(e2e.BIN / "pipe-opt"), "-", *options], input=text, capture_output=True, text=True, timeout=300)
    return e2e.Result(done.returncode, done.stdout, done.stderr)


class Texts(e2e.Case):
    def sameAgain(self, text, what, *options):
        again = pipeOpt(text, *options)
        self.assertEqual(again.code, 0, f"{what}: {again.err}")
        for number, (old, new) in enumerate(zip(text.splitlines(), again.out.splitlines()), 1):
            self.assertEqual(old, new, f"{what}, line {number}")
        self.assertEqual(text, again.out, what)

    def testModelsWereMade(self):
        self.assertIn("lstm", NAMES)
        self.assertGreaterEqual(len(NAMES), 8)

    def testEveryDumpOfACompile(self):
        """Front, typed and stage passes; one pipe-opt reads all dumps of a model."""
        for name in NAMES:
            with self.subTest(name):
                dumps = Path(f"{name}.dumps")
                stages = [] if name == "mlp_markers" else ["--stages", 3]
                self.pipec(0, "pipe-compile", e2e.MODELS / f"{name}.pt", *stages, "--inputs", e2e.MODELS / f"{name}.inputs.pt", "--dry-run",
                           "--dump-ir", dumps)
                files = sorted(dumps.iterdir())
                # Before that the model is a module object.
                first = next(i for i, file in enumerate(files) if "lower-attributes" in file.name)
                texts = [file.read_text() for file in files[first:]]
                self.assertTrue(texts[0].startswith("model ") and texts[-1].startswith("staged "), files)
                if stages:
                    self.assertTrue(any("\n  costs [" in text for text in texts))
                self.sameAgain("# -----\n".join(texts), name, "--print-scopes", "--print-digests=false")

    def testWithDigests(self):
        """The printed pipeline up to the cuts, on the file; then cuts written into the text, and the passes after them."""
        for name in NAMES:
            with self.subTest(name):
                pipeline = self.pipec(0, "pipe-compile", e2e.MODELS / f"{name}.pt", "--nearest", "--print-pipeline").out
                front, cut, stages = pipeline.partition("choose-cuts")
                self.assertTrue(cut, pipeline)
                flat = self.pipec(0, "pipe-opt", e2e.MODELS / f"{name}.pt", "--passes", front.rstrip()[:front.rstrip().rindex(",")]).out
                self.sameAgain(flat, name)
                lines = flat.splitlines(keepends=True)
                top = [i for i, line in enumerate(lines) if line.startswith("    %") and "aten::" in line]
                if "pipec::cut()" not in flat:
                    lines.insert(top[len(top) // 2], "    pipec::cut()\n")
                staged = pipeOpt("".join(lines), "--passes", cut + stages.rstrip())
                self.assertEqual(staged.code, 0, f"{name}: {staged.err}")
                self.assertTrue(staged.out.startswith("staged "))
                self.sameAgain(staged.out, name)

    def testPrintedPipelineRuns(self):
        """Word for word, comments and all; it says what runs in between, and what only the compiler can do."""
        model, options = e2e.MODELS / "mlp.pt", ["--inputs", "f32[2,64]"]
        printed = self.pipec(0, "pipe-compile", model, "--at", "layers.4,head", *options, "--print-pipeline").out
        self.assertLess(printed.index("simplify"), printed.index("# With types from the example inputs"))
        self.assertLess(printed.index("# The graph is written as a TorchScript file"), printed.index("choose-cuts{at=layers.4:head},legalise-cuts,"))
        self.assertNotIn("costs", printed)
        staged = self.pipec(0, "pipe-opt", model, "--passes", printed).out
        self.assertEqual(staged.count("\n  stage "), 3)
        byCost = self.pipec(0, "pipe-compile", model, "--stages", 2, *options, "--print-pipeline").out
        self.assertIn("in text, the entity `costs`", byCost)
        self.refused(2, "automatic cuts need the cost of every operator", "pipe-opt", model, "--passes", byCost)
        self.pipec(0, "pipe-compile", model, "--stages", 2, *options, "--dry-run", "--dump-ir", "cost.dumps")
        costed = next(path.read_text() for path in sorted(Path("cost.dumps").iterdir()) if "choose-cuts" in path.name)
        again = pipeOpt(costed.replace("    pipec::cut()\n", ""), "--passes", "choose-cuts{stages=2}", "--print-scopes", "--print-digests=false")
        self.assertEqual(again.out, costed, again.err)

    def testObjectsAreShownAndRefused(self):
        """A TorchBind object can be run but not written down: one sentence says so."""
        class Holder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.held = torch.ao.nn.quantized.dynamic.Linear(4, 4)
                self.own = torch.nn.Linear(4, 4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.own(self.held(x))

        torch.jit.script(Holder().eval()).save("holder.pt")
        shown = self.pipec(0, "pipe-opt", "holder.pt", "--passes", "inline,lower-attributes,simplify").out
        self.assertIn("value=object", shown)
        Path("holder.ir").write_text(shown)
        refused = self.refused(4, "LinearPackedParamsBase", "pipe-opt", "holder.ir")
        self.assertEqual(len(refused.err.splitlines()), 2, refused.err)


if __name__ == "__main__":
    e2e.main()

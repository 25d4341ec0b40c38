"""The same model and options give the same bytes, whatever the path, the clock, the locale, the time zone, the order of
folders or the number of threads."""
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import e2e
import odd_models

sys.path.insert(0, str(e2e.SOURCE / "tests" / "support"))
import training_models  # noqa: E402

NAME = "unet"
MODEL, INPUTS = e2e.MODELS / f"{NAME}.pt", e2e.MODELS / f"{NAME}.inputs.pt"
OPTIONS = ["--cost", "analytic", "--stages", 3, "--inputs"]


def onOneCore():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Reproducible(e2e.Case):
    @classmethod
    def setUpClass(cls):
        made = e2e.run("pipe-compile", MODEL, *OPTIONS, INPUTS, "-o", "first.pipe")
        assert made.code == 0, made.err

    def sameAsFirst(self, artifact):
        first, other = e2e.files("first.pipe"), e2e.files(artifact)
        self.assertEqual(list(first), list(other))
        self.assertEqual([name for name in first if first[name] != other[name]], [], f"files of {artifact} that differ")

    def testAgain(self):
        self.compiled(MODEL, "again.pipe", *OPTIONS, INPUTS)
        self.sameAsFirst("again.pipe")
        self.compiled(MODEL, "again.pipe", *OPTIONS, INPUTS)  # replaces what is there
        self.sameAsFirst("again.pipe")

    def testOneCore(self):
        """Test runs one after the other, and several at a time: the same artifact, and the same words."""
        def words(result):
            return result.err, result.out.partition("time of the compile")[0]

        for model, how in (("lstm", ["--stages", 2, "--cost", "analytic"]), ("mlp", ["--at", "layers.8"])):
            with self.subTest(model=model):
                command = ["pipe-compile", e2e.MODELS / f"{model}.pt", *how, "--inputs", e2e.MODELS / f"{model}.inputs.pt", "--force", "-o"]
                results = [self.pipec(0, *command, "alone.pipe", before=onOneCore, saying="bits"), self.pipec(0, *command, "cores.pipe", saying="bits")]
                self.assertEqual(words(results[0]), words(results[1]))
                self.assertEqual(e2e.files("alone.pipe"), e2e.files("cores.pipe"))

    def testClockAndFolders(self):
        """Another clock, that even runs backwards, and folders that list their files in another order."""
        Path("listed").mkdir()
        for name in ("a", "b", "c"):
            (Path("listed") / name).touch()

        def seen(environment):
            program = "import json, os, time; print(json.dumps([os.listdir('listed'), time.time()]))"
            return json.loads(subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                             check=True).stdout)

        (here, now), (there, then) = seen({}), seen(e2e.preloading(sys.executable, "other_machine"))
        self.assertEqual(here, there[::-1])  # the other machine is another
        self.assertGreater(now - then, 39 * 86400)
        self.compiled(MODEL, "other-machine.pipe", *OPTIONS, INPUTS, env=e2e.preloading(e2e.BIN / "pipe-compile", "other_machine"))
        self.sameAsFirst("other-machine.pipe")

    def testSurroundings(self):
        """Another directory, relative paths, other names, another time zone, locale, home, number of threads and mask of permissions."""
        place = Path("else where/much/deeper")
        place.mkdir(parents=True)
        shutil.copy(INPUTS, place / "in.pt")
        (place / "model.pt").symlink_to(MODEL)
        environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE.UTF-8", "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3",
                       "HOME": "/nonexistent", "TMPDIR": str(place.resolve()), "COLUMNS": "33"}
        before = os.umask(0o077)
        try:
            self.pipec(0, "pipe-compile", "model.pt", *OPTIONS, "in.pt", "-o", "a longer name.pipe", env=environment, cwd=place)
        finally:
            os.umask(before)
        self.sameAsFirst(place / "a longer name.pipe")
        self.assertEqual(e2e.leftovers(place, ["model.pt", "in.pt", "a longer name.pipe"]), [])

    def testPinnedToOneCore(self):
        done = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), str(e2e.BIN / "pipe-compile"), str(MODEL), *map(str, OPTIONS),
                               str(INPUTS), "-o", "one-core.pipe"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.sameAsFirst("one-core.pipe")

    def testSavedAgain(self):
        """By PyTorch, under another name: another file, the same model."""
        torch.jit.load(MODEL).save("saved again.pt")
        self.assertNotEqual(Path("saved again.pt").read_bytes(), MODEL.read_bytes())
        self.compiled("saved again.pt", "saved-again.pipe", *OPTIONS, INPUTS)
        self.assertEqual(e2e.plan("saved-again.pipe")["source_digest"], e2e.plan("first.pipe")["source_digest"])
        self.sameAsFirst("saved-again.pipe")

    def testOtherContainers(self):
        """Saved into memory, where the archive has another name, and with files of the user's beside the model."""
        model, memory = torch.jit.load(MODEL), io.BytesIO()
        torch.jit.save(model, memory)
        Path("memory.pt").write_bytes(memory.getvalue())
        torch.jit.save(model, "extra.pt", _extra_files={"note.txt": "made on a Monday", "config.json": "{}"})
        for name in ("memory", "extra"):
            with self.subTest(name):
                self.compiled(f"{name}.pt", f"{name}.pipe", *OPTIONS, INPUTS)
                self.sameAsFirst(f"{name}.pipe")

    def testAddresses(self):
        """Nothing is in the order of addresses: with and without their randomisation, in memory that is not zero."""
        for name, front in (("fixed", ["setarch", "-R"]), ("random", [])):
            with self.subTest(name):
                command = [*front, str(e2e.BIN / "pipe-compile"), str(MODEL), *map(str, OPTIONS), str(INPUTS), "-o", f"{name}.pipe"]
                environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "90", "PAD": "x" * 5000}
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                if name == "fixed" and "failed to set personality" in done.stderr:
                    self.skipTest("setarch -R is not allowed here")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.sameAsFirst(f"{name}.pipe")

    def testCommaLocale(self):
        """A locale that writes 0,5, made here where the system has the sources of locales."""
        if not shutil.which("localedef") or subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", "./de_DE.UTF-8"], capture_output=True).returncode:
            self.skipTest("no localedef, or no sources of locales")
        self.compiled(MODEL, "comma.pipe", *OPTIONS, INPUTS, env={"LOCPATH": str(Path.cwd()), "LC_ALL": "de_DE.UTF-8"})
        self.sameAsFirst("comma.pipe")

    def testLineNumbers(self):
        """The same program further down in its file, below other comments; scripted and traced."""
        program = '''
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.a(x)){comment}
        if y.dim() != 2:  # folded, and the fact is in the plan
            raise ValueError("two dimensions are wanted")
        return self.b(y)


torch.manual_seed(5)
model = Model()
torch.jit.script(model).save("scripted.pt")
torch.jit.trace(model, torch.ones(2, 8)).save("traced.pt")
'''
        for name, head, comment in (("upper", "", ""), ("lower", "# more\n" * 40, "  # and here")):
            Path(name).mkdir()
            (Path(name) / "program.py").write_text(f"{head}import torch\nfrom torch import nn\n" + program.replace("{comment}", comment))
            subprocess.run([sys.executable, "program.py"], cwd=name, check=True, capture_output=True)
            for how in ("scripted", "traced"):
                self.compiled(f"{name}/{how}.pt", f"{name}-{how}.pipe", "--stages", 2, "--inputs", "f32[2,8]")
        for how in ("scripted", "traced"):
            with self.subTest(how):
                self.assertNotEqual(Path(f"upper/{how}.pt").read_bytes(), Path(f"lower/{how}.pt").read_bytes())
                self.assertEqual(e2e.files(f"upper-{how}.pipe"), e2e.files(f"lower-{how}.pipe"))
        self.assertTrue(any("rank 2" in str(fact) for fact in e2e.plan("upper-scripted.pipe")["obligations"]))

    def testWarnings(self):
        """LibTorch numbers warnings anew whenever it reads a file: the numbers are no part of the program."""
        torch.manual_seed(5)
        torch.jit.script(odd_models.Warns()).save("warns.pt")
        twice = torch.jit.load("warns.pt")
        twice = torch.jit.load("warns.pt")  # its warnings have other numbers than those of the first
        twice.save("warns twice.pt")
        for name in ("warns.pt", "warns twice.pt"):
            self.compiled(name, f"{name}.pipe", "--at", "b", "--inputs", "f32[2,8]")
        first, second = e2e.files("warns.pt.pipe"), e2e.files("warns twice.pt.pipe")
        self.assertEqual([name for name in first if first[name] != second.get(name)], [])
        self.assertEqual(list(first), list(second))

    def testOtherWeightsAreAnotherModel(self):
        """The digest is over every byte of the weights."""
        model = torch.jit.load(MODEL)
        with torch.no_grad():
            list(model.parameters())[3].view(torch.int32).flatten()[1] ^= 1
        model.save("other.pt")
        self.compiled("other.pt", "other.pipe", *OPTIONS, INPUTS)
        self.assertNotEqual(e2e.plan("other.pipe")["source_digest"], e2e.plan("first.pipe")["source_digest"])


class Trainings(e2e.Case):
    """Searches for a training stop when their work is done or too much, never by the clock: a slow machine has the same plan."""

    @classmethod
    def setUpClass(cls):
        model, batch = training_models.save("gpt")
        cls.command = ["pipe-compile", model, "--inputs", batch, "--train", "--cost", "analytic", "--ranks", 2, "--batch", 16, "--force", "-o"]
        cls.slow = e2e.preloading(e2e.BIN / "pipe-compile", "fast_clock")

    def testTheClockIsFast(self):
        program = "import time; before = time.monotonic(); sum(range(10**6)); print(time.monotonic() - before)"
        seen = subprocess.run([sys.executable, "-c", program], env={**os.environ, **e2e.preloading(sys.executable, "fast_clock")}, capture_output=True,
                              text=True, check=True)
        self.assertGreater(float(seen.stdout), 1)  # it takes more than a millisecond

    def testArtifacts(self):
        """Without a memory limit, and with one that another pipeline keeps."""
        plans = []
        for limit in ([], ["--memory-limit", "400KiB"]):
            self.pipec(0, *self.command, "first-training.pipe", *limit)
            first = e2e.files("first-training.pipe")
            plans.append(first["plan.json"])
            for where, how in (("one core, three threads", {"before": onOneCore, "env": {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}}),
                               ("a slow machine", {"env": self.slow})):
                with self.subTest(where, limit=limit):
                    self.pipec(0, *self.command, "other-training.pipe", *limit, **how)
                    other = e2e.files("other-training.pipe")
                    self.assertEqual(list(first), list(other))
                    self.assertEqual([name for name in first if first[name] != other[name]], [])
        self.assertNotEqual(*plans)

    def testTheLeastMemory(self):
        """Its search is the longest: what it names is no matter of time, either."""
        asked = [*self.command, "never.pipe", "--memory-limit", "1kB"]
        first, slow = self.refused(12, "expected at least", *asked), self.refused(12, "expected at least", *asked, env=self.slow)
        self.assertEqual(first.err, slow.err)


if __name__ == "__main__":
    e2e.main()

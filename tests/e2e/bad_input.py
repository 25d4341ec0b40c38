"""What a user can get wrong with files and options: the exit code, a message that names it, and nothing left behind."""
import os
import re
import resource
import shutil
import zipfile
from pathlib import Path

import torch

import e2e
from odd_models import OnlyStep

MODEL = e2e.MODELS / "mlp.pt"
INPUTS = e2e.MODELS / "mlp.inputs.pt"
USAGE, UNREADABLE, DAMAGED, IO = 2, 3, 5, 8


class InOwnDirectory(e2e.Case):
    """Each test has an empty directory, and says what may be left in it."""

    def setUp(self):
        self.directory = Path.cwd() / self.id().removeprefix("__main__.")
        self.directory.mkdir()

    def write(self, name, data):
        path = self.directory / name
        path.write_bytes(data)
        return path

    def nothingLeft(self, *allowed):
        self.assertEqual(e2e.leftovers(self.directory, allowed), [], "left behind")

    def bothRefuse(self, model, *saying, code=UNREADABLE, options=()):
        """pipe-compile and pipe-run refuse a model alike and leave nothing."""
        before = os.listdir(self.directory)
        for tool, own in (("pipe-compile", ["--stages", 2, "-o", self.directory / "out.pipe"]),
                          ("pipe-run", ["--output", self.directory / "out.pt"])):
            with self.subTest(tool=tool, model=str(model)):
                self.refused(code, [str(model), *saying], tool, model, "--inputs", INPUTS, *own, *options)
                self.nothingLeft(*before)


class Models(InOwnDirectory):
    def testNotAZip(self):
        self.bothRefuse(self.write("text.pt", b"this is no model\n" * 100))

    def testEmpty(self):
        self.bothRefuse(self.write("empty.pt", b""), "empty")

    def testTruncated(self):
        data = MODEL.read_bytes()
        for length in (1, 100, len(data) // 2, len(data) - 1):
            self.bothRefuse(self.write(f"cut-{length}.pt", data[:length]))

    def testRecordsOverwritten(self):
        """LibTorch does not look at the check sums in a zip file, so what it reads can be anything."""
        with zipfile.ZipFile(MODEL) as archive:
            records = {info.filename.split("/", 1)[1]: info for info in archive.infolist()}
        for record in ("data.pkl", "code/__torch__/modelzoo.py", "constants.pkl"):
            data, info = bytearray(MODEL.read_bytes()), records[record]
            begin = data.index(b"PK\x03\x04", info.header_offset) + 30 + len(info.filename)
            begin += int.from_bytes(data[begin - len(info.filename) - 2:begin - len(info.filename)], "little")  # the extra field
            data[begin:begin + info.compress_size] = b"\x7f" * info.compress_size
            self.bothRefuse(self.write(f"no-{Path(record).name}.pt", bytes(data)))

    def testStateDict(self):
        torch.save(torch.jit.load(MODEL).state_dict(), self.directory / "weights.pt")
        self.bothRefuse(self.directory / "weights.pt", "help: ")

    def testAnotherZip(self):
        with zipfile.ZipFile(self.directory / "other.pt", "w") as archive:
            archive.writestr("hello.txt", "hello")
        self.bothRefuse(self.directory / "other.pt")

    def testDirectory(self):
        (self.directory / "folder.pt").mkdir()
        self.refused(UNREADABLE, ["folder.pt", "directory"], "pipe-compile", self.directory / "folder.pt", "--stages", 2)
        # pipe-run takes a directory for an artifact.
        self.refused(DAMAGED, "folder.pt", "pipe-run", self.directory / "folder.pt", "--inputs", INPUTS)
        self.nothingLeft("folder.pt")

    def testMissing(self):
        self.bothRefuse(self.directory / "nowhere.pt", code=IO)

    def testDevice(self):
        self.bothRefuse(Path("/dev/null"))

    def testNoForward(self):
        torch.jit.script(OnlyStep()).save(str(self.directory / "step.pt"))
        self.bothRefuse(self.directory / "step.pt", "step.pt: no method forward\nhelp: its only method is step: pass --method step")

    def testOtherMethod(self):
        torch.jit.script(OnlyStep()).save(str(self.directory / "step.pt"))
        self.compiled(self.directory / "step.pt", self.directory / "step.pipe", "--method", "step", "--stages", 2, "--inputs", INPUTS)
        self.pipec(0, "pipe-run", self.directory / "step.pt", "--method", "step", "--inputs", INPUTS, "--threads", 1,
                   "--output", self.directory / "expected.pt")
        self.pipec(0, "pipe-run", self.directory / "step.pipe", "--inputs", INPUTS, "--microbatches", 1, *e2e.BITS,
                   "--expect", self.directory / "expected.pt", saying="PASSED")

    def testUnknownMethod(self):
        self.bothRefuse(MODEL, "method nope", "forward", code=USAGE, options=["--method", "nope"])


class Inputs(InOwnDirectory):
    """The model wants one float32[N,64]."""

    def compileRefuses(self, inputs, *saying, code=USAGE):
        before = os.listdir(self.directory)
        self.refused(code, saying, "pipe-compile", MODEL, "--stages", 2, "--inputs", inputs, "-o", self.directory / "out.pipe")
        self.nothingLeft(*before)

    def saved(self, value):
        torch.save(value, self.directory / "in.pt")
        return self.directory / "in.pt"

    def testShape(self):
        self.compileRefuses("f32[2,63]", "63", "64")

    def testDtype(self):
        self.compileRefuses("i64[2,64]<10")

    def testTooMany(self):
        self.compileRefuses("f32[2,64],f32[2,64]", "expected at most 1", "got 2")

    def testNone(self):
        self.compileRefuses(self.saved(()), "expected", "x")

    def testWrongKind(self):
        self.compileRefuses(self.saved(("text",)), "argument x", "expected Tensor")

    def testUnknownName(self):
        self.compileRefuses(self.saved({"y": torch.ones(2, 64)}), "x")

    def testByName(self):
        self.saved({"x": torch.load(INPUTS)[0]})
        self.compiled(MODEL, self.directory / "out.pipe", "--stages", 2, "--inputs", self.directory / "in.pt")

    def testOneTensor(self):
        self.compiled(MODEL, self.directory / "out.pipe", "--stages", 2, "--inputs", self.saved(torch.load(INPUTS)[0]))

    def testDescription(self):
        for text in ("f32[2,64", "f99[2,64]", "f32[2,-1]", "[2,64]", "f32[2,64]]"):
            with self.subTest(text=text):
                self.compileRefuses(text, text)

    def testNegativeSize(self):
        self.compileRefuses("f32[-1,64]", "expected sizes of 0 or more, got -1")

    def testNoElements(self):
        """Nothing costs anything then: cuts by cost would stand anywhere. Cuts that are named are fine."""
        self.compileRefuses("f32[0,64]", "expected example inputs that are not empty", "got input x [0,64]", "--at")
        self.compiled(MODEL, self.directory / "out.pipe", "--at", "head", "--inputs", "f32[0,64]")

    def testUnreadableFile(self):
        self.compileRefuses(self.write("in.pt", b"no tensors here" * 50), "in.pt", code=UNREADABLE)

    def testTruncatedFile(self):
        data = INPUTS.read_bytes()
        self.compileRefuses(self.write("in.pt", data[:len(data) // 2]), "in.pt", code=UNREADABLE)

    def testFileThatRunsCode(self):
        """A pickle may name any function; ours reads only values."""
        self.saved(os.getcwd)
        self.compileRefuses(self.directory / "in.pt", "in.pt", code=UNREADABLE)

    def testMissingFile(self):
        result = self.refused(IO, "nowhere.pt", "pipe-compile", MODEL, "--stages", 2, "--inputs", self.directory / "nowhere.pt",
                              "-o", self.directory / "out.pipe")
        self.assertIn("no such file", result.err.lower())
        self.nothingLeft()


class RunInputs(InOwnDirectory):
    """The same when an artifact is run, where the plan knows what fits."""

    @classmethod
    def setUpClass(cls):
        e2e.run("pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "-o", "run.pipe")

    def refuseRun(self, inputs, *saying, options=(), code=USAGE):
        self.refused(code, saying, "pipe-run", "run.pipe", "--inputs", inputs, "--output", self.directory / "out.pt", *options)
        self.nothingLeft()

    def testShape(self):
        self.refuseRun("f32[8,63]", "x", "64", "63")

    def testRank(self):
        self.refuseRun("f32[8,1,64]", "x")

    def testDtype(self):
        self.refuseRun("i64[8,64]<10", "float32", "int64")

    def testCount(self):
        self.refuseRun("f32[8,64],f32[8,64]", "expected at most 1", "got 2")

    def testNone(self):
        self.refused(USAGE, "x", "pipe-run", "run.pipe")

    def testMoreMicroBatchesThanSamples(self):
        self.refuseRun("f32[3,64]", "4", "3", options=["--microbatches", 4])

    def testNoMicroBatches(self):
        for count in ("0", "-1", "many", "1.5", "99999999999999999999"):
            with self.subTest(count=count):
                self.refuseRun("f32[8,64]", "--microbatches", options=["--microbatches", count])

    def testExpectOfAnotherShape(self):
        torch.save(torch.ones(8, 9), "other-shape.pt")
        result = self.pipec(7, "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--expect", "other-shape.pt", saying="FAILED: ")
        self.assertRegex(result.out + result.err, r"9")

    def testExpectMissing(self):
        self.refuseRun("f32[8,64]", "nowhere.pt", options=["--expect", "nowhere.pt"], code=IO)

    def testOutputExists(self):
        self.write("out.pt", b"mine")
        self.refused(USAGE, ["out.pt", "--force"], "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output", self.directory / "out.pt")
        self.assertEqual((self.directory / "out.pt").read_bytes(), b"mine")
        self.nothingLeft("out.pt")

    def testOutputInAnArtifact(self):
        before = e2e.files("run.pipe")
        for options in ([], ["--force"]):
            self.refused(USAGE, "--output: run.pipe/out.pt is inside an artifact", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output", "run.pipe/out.pt",
                         *options)
            self.refused(USAGE, "--output: run.pipe/stage-0.pt is inside an artifact", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output",
                         "run.pipe/stage-0.pt", *options)
            self.refused(USAGE, "--trace: run.pipe/t.json is inside an artifact", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--trace",
                         "run.pipe/t.json", *options)
        os.symlink("run.pipe", "link.pipe")
        self.refused(USAGE, "--output: link.pipe/out.pt is inside an artifact", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output", "link.pipe/out.pt")
        os.remove("link.pipe")
        self.assertEqual(e2e.files("run.pipe"), before)

    def testOutputsAreCheckedFirst(self):
        self.refused(IO, "--output: cannot write no/such.pt: no such file or directory", "pipe-run", "run.pipe", "--inputs", "nowhere.pt", "--output", "no/such.pt")
        self.refused(IO, "--trace: cannot write no/such.json: no such file or directory", "pipe-run", "run.pipe", "--inputs", "nowhere.pt", "--trace",
                     "no/such.json")
        self.refused(USAGE, "--trace: expected another file than that of --output, got ./one", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output",
                     "one", "--trace", "./one")

    def testScheduleOfAnotherKind(self):
        """The artifact is whole: the file that was named is not what it should be."""
        self.refuseRun("f32[8,64]", "--schedule run.pipe/plan.json: ", "line 1", options=["--schedule", "run.pipe/plan.json"], code=UNREADABLE)

    def testNoDevice(self):
        for given, devices in ((",", ""), ("cpu,", "cpu"), ("cpu,,cpu", "cpu,cpu"), ("cpu, ,cpu", "cpu,cpu")):
            self.refuseRun("f32[8,64]", f'--device: expected something on both sides of each comma, got "{given}"', *([f"help: pass {devices}"] if devices else []),
                           options=["--device", given])

    def testOutputIsALink(self):
        """One that leads nowhere yet, too: it is not replaced, and with --force what it names is written."""
        (self.directory / "link.pt").symlink_to("real.pt")
        command = ["pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output", self.directory / "link.pt"]
        self.refused(USAGE, ["link.pt, a symbolic link", "--force"], *command)
        self.nothingLeft("link.pt")
        for _ in range(2):
            self.pipec(0, *command, "--force")
            self.assertTrue((self.directory / "link.pt").is_symlink() and not (self.directory / "real.pt").is_symlink())
            torch.load(self.directory / "real.pt")
        self.nothingLeft("link.pt", "real.pt")

    def testOutputUnwritable(self):
        self.refused(IO, "/proc/out.pt", "pipe-run", "run.pipe", "--inputs", "f32[8,64]", "--output", "/proc/out.pt")


class Outputs(InOwnDirectory):
    OPTIONS = ["--stages", 2, "--inputs", INPUTS]

    def compileTo(self, target, *options):
        return ("pipe-compile", MODEL, *self.OPTIONS, "-o", target, *options)

    def testParentIsAFile(self):
        self.write("file", b"")
        self.refused(IO, "file", *self.compileTo(self.directory / "file" / "out.pipe"))
        self.nothingLeft("file")

    def testParentIsMissing(self):
        self.refused(IO, "nowhere", *self.compileTo(self.directory / "nowhere" / "out.pipe"))
        self.nothingLeft()

    def testFileSystemThatTakesNothing(self):
        self.refused(IO, "/proc/out.pipe", *self.compileTo("/proc/out.pipe"))

    def testExists(self):
        target = self.directory / "out.pipe"
        self.pipec(0, *self.compileTo(target))
        before = e2e.files(target)
        self.refused(USAGE, ["out.pipe", "exists", "--force"], *self.compileTo(target))
        self.assertEqual(e2e.files(target), before)
        self.pipec(0, "pipe-compile", MODEL, "--stages", 3, "--inputs", INPUTS, "-o", target, "--force")
        self.assertEqual(len(e2e.plan(target)["stages"]), 3)
        self.nothingLeft("out.pipe")

    def testForeignDirectoryIsNeverReplaced(self):
        for name, content in (("precious.pipe/letter.txt", b"mine"), ("file.pipe", b"mine")):
            path = self.directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            target = path if path.parent == self.directory else path.parent
            for options in ([], ["--force"]):
                with self.subTest(target=target.name, options=options):
                    self.refused(USAGE, target.name, *self.compileTo(target, *options))
                    self.assertEqual(path.read_bytes(), b"mine")
        self.nothingLeft("precious.pipe", "file.pipe")

    def testALinkIsNoArtifact(self):
        (self.directory / "link.pipe").symlink_to("elsewhere")
        for options in ([], ["--force"]):
            self.refused(USAGE, ["link.pipe", "expected a directory, got a symbolic link"], *self.compileTo(self.directory / "link.pipe", *options))
        self.nothingLeft("link.pipe")

    def testFailedForceKeepsTheOld(self):
        target = self.directory / "out.pipe"
        self.pipec(0, *self.compileTo(target))
        before = e2e.files(target)
        self.pipec(4, "pipe-compile", MODEL, "--stages", 1000, "--inputs", INPUTS, "-o", target, "--force")
        self.assertEqual(e2e.files(target), before)
        self.nothingLeft("out.pipe")

    def testDefaultName(self):
        shutil.copy(MODEL, self.directory / "small.pt")
        self.pipec(0, "pipe-compile", "small.pt", *self.OPTIONS, cwd=self.directory)
        self.nothingLeft("small.pt", "small.pipe")
        self.assertEqual(len(e2e.plan(self.directory / "small.pipe")["stages"]), 2)

    def testDryRun(self):
        self.pipec(0, *self.compileTo(self.directory / "out.pipe", "--dry-run"), saying="nothing was written\n")
        self.nothingLeft()

    def testDumps(self):
        """They are output too: not overwritten without --force, and then none of an older compile is left."""
        dumps = self.directory / "dumps"
        command = [*self.compileTo(self.directory / "out.pipe"), "--dry-run", "--dump-ir", dumps]
        self.pipec(0, *command, saying=f"nothing was written except the dumps in {dumps}")
        before = e2e.files(dumps)
        self.refused(USAGE, ["--dump-ir", "dumps/01-inline.ir, which exists", "--force"], *command)
        self.assertEqual(e2e.files(dumps), before)
        self.write("dumps/90-dead-code.ir", b"old")
        self.write("dumps/letter.txt", b"mine")
        self.pipec(0, *command, "--force")
        self.assertEqual(e2e.files(dumps), {**before, "letter.txt": b"mine"})
        self.refused(IO, "letter.txt", *self.compileTo(self.directory / "out.pipe"), "--dump-ir", dumps / "letter.txt")
        self.refused(USAGE, "--dump-ir: expected a directory outside the artifact", *self.compileTo(self.directory / "out.pipe"), "--dump-ir", self.directory / "out.pipe/")
        self.nothingLeft("dumps")

    def testDumpsIntoAnArtifact(self):
        """They would damage it."""
        target = self.directory / "out.pipe"
        self.pipec(0, *self.compileTo(target))
        before = e2e.files(target)
        for into in (target, self.directory / "other.pipe"):
            for options in ([], ["--force"]):
                self.refused(USAGE, "--dump-ir: expected", *self.compileTo(into, "--dump-ir", target, *options))
                self.assertEqual(e2e.files(target), before)
        self.nothingLeft("out.pipe")

    def testFullDisk(self):
        """A limit on the size of files stands for a disk without room: writes fail in the middle of a file."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))
        self.refused(IO, ["out.pipe", "cannot write: file too large: a limit of the shell stops it at 10000 bytes", "help: raise the limit: ulimit -f unlimited"],
                     *self.compileTo(self.directory / "out.pipe"), before=limit)
        self.nothingLeft()
        torch.save((torch.randn(2000, 64),), self.directory / "many.pt")
        self.refused(IO, ["out.pt: cannot write: file too large: a limit of the shell stops it at 10000 bytes", "help: raise the limit: ulimit -f unlimited"],
                     "pipe-run", MODEL, "--inputs", self.directory / "many.pt", "--microbatches", 1, "--output", self.directory / "out.pt", before=limit)
        self.nothingLeft("many.pt")

    def testTooManyOpenFiles(self):
        """Wherever it happens, it is no fault of pipec, and nothing is left. Three files are open at the start."""
        for most in (4, 5, 5, 5, 6, 7):
            with self.subTest(most=most):
                limit = lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
                run = e2e.run(*self.compileTo(self.directory / "out.pipe"), before=limit, cwd=self.directory)
                self.assertIn(run.code, (0, IO), run.err)
                if run.code == IO:
                    self.assertIn("too many open files", run.err)
                    self.nothingLeft()
                shutil.rmtree(self.directory / "out.pipe", ignore_errors=True)


class Options(InOwnDirectory):
    def testNobodyListens(self):
        """stdout and stderr are closed: an exit code is all that can be told."""
        def close():
            os.close(1), os.close(2)
        self.assertEqual(e2e.run("pipe-compile", MODEL, "--at", "layers.8", "-o", self.directory / "out.pipe", before=close).code, IO)
        self.nothingLeft("out.pipe")

    def testUnknown(self):
        for tool, wrong, near in (("pipe-compile", "--stagse", "--stages"), ("pipe-compile", "--input", "--inputs"),
                                  ("pipe-run", "--microbatch", "--microbatches"), ("pipe-run", "--treads=1", "--threads")):
            with self.subTest(option=wrong):
                result = self.refused(USAGE, [wrong.split("=")[0], near], tool, MODEL, wrong, "1")
                self.assertLess(len(result.err.splitlines()), 5, "the whole help is not what was asked for")

    def testValues(self):
        for options in (["--stages", "0"], ["--stages", "-1"], ["--stages", "two"], ["--stages", "1.5"], ["--stages"], ["--split", "sometimes"],
                        ["--split", "at"], ["--tied", "maybe"], ["--verify", "perhaps"], ["--verify", "run"], ["--batch-dim", "x=a"],
                        ["--batch-dim", "nobody=0", "--inputs", INPUTS, "--stages", 2], ["--microbatches", "0"], ["--microbatches", 10**9], ["--ranks", "0"],
                        ["--ranks", "3", "--stages", "2", "--inputs", INPUTS], ["--print-after", "nothing-like-it", "--stages", "2", "--inputs", INPUTS],
                        ["--stages", "2", "--stages", "3"]):
            with self.subTest(options=options):
                self.refused(USAGE, options[0].lstrip("-"), "pipe-compile", MODEL, "-o", self.directory / "out.pipe", *options)
                self.nothingLeft()

    def testValuesOfARun(self):
        for option, value, bound in (("--threads", 0, "at least 1, got 0"), ("--threads", 99999, "at most 1024, got 99999"),
                                     ("--microbatches", 0, "at least 1, got 0"),
                                     ("--microbatches", 10**9, "at most 1048576, got 1000000000"), ("--repeat", -1, "at least 1, got -1")):
            with self.subTest(option=option, value=value):
                self.refused(USAGE, [option, bound], "pipe-run", MODEL, "--inputs", INPUTS, option, value)

    def testSourceOfASavedModule(self):
        self.refused(USAGE, ["--torchscript", MODEL.name, "a saved module"], "pipe-opt", MODEL, "--torchscript", "--passes", "inline")

    def testNothingSaysWhereToCut(self):
        self.refused(USAGE, ["no cuts are requested", "--stages", "@torch.jit.script"], "pipe-compile", MODEL, "-o", self.directory / "out.pipe")

    def testStagesWithoutInputs(self):
        self.refused(USAGE, "--inputs", "pipe-compile", MODEL, "--stages", 2, "-o", self.directory / "out.pipe")

    def testLibrary(self):
        self.refused(IO, "help: pass a shared library (.so) of operators", "pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "--load-library", MODEL)
        self.refused(IO, "nowhere.so", "pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "--load-library", "nowhere.so")

    def testNoColour(self):
        """Never into a pipe; on a terminal unless NO_COLOR is set to something."""
        command = ("pipe-compile", MODEL, "--at", "head", "--dry-run")
        colour = re.compile(r"\x1b\[")
        self.assertNotRegex(e2e.run(*command, env={"NO_COLOR": ""}).out, colour)
        self.assertNotRegex(onTerminal(*command, NO_COLOR="1", TERM="xterm"), colour)
        self.assertRegex(onTerminal(*command, NO_COLOR="", TERM="xterm"), colour)


def onTerminal(tool, *arguments, **env):
    """What a command prints when its output is a terminal."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(e2e.BIN / tool, [tool, *map(str, arguments)], {**os.environ, **env})
    text = b""
    try:
        while part := os.read(terminal, 4096):
            text += part
    except OSError:  # how Linux reports the other end's closing
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return text.decode()


if __name__ == "__main__":
    e2e.main()

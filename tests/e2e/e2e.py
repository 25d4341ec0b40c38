"""What the scripts of this folder share: running the commands, and comparing numbers bit by bit.

A script holds unittest cases and ends with e2e.main(), which makes an empty SCRIPT.work where it was called and goes there. Names on
the command line become e2e.NAMES, options of unittest follow after `--`.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from collections import namedtuple
from pathlib import Path

SOURCE = Path(os.environ.get("PIPEC_SOURCE", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("PIPEC_BIN", SOURCE / "build" / "bin"))
MODELS = Path(os.environ.get("PIPEC_MODELS", BIN.resolve().parent / "models"))
NAMES = []
BITS = ["--threads", "1", "--rtol", "0", "--atol", "0"]  # equal means equal bits, which depend on the intra-op threads
SKIPPED = 77

Result = namedtuple("Result", "code out err")


def have(tool):
    return (BIN / tool).exists()


def run(tool, *arguments, env=None, cwd=None, timeout=300, before=None):
    """Runs a command of pipec to its end. `env` is added to the environment; `before` is called in its process before it starts.

    Automatic cuts are planned by counted costs unless a test says otherwise: the same on every run, and nothing is timed.
    """
    words = [str(BIN / tool), *map(str, arguments)]
    if tool == "pipe-compile" and ("--stages" in words or "--schedule" in words) and "--inputs" in words and "--cost" not in words and "--cluster" not in words:
        words += ["--cost", "analytic"]
    done = subprocess.run(words, env={**os.environ, **(env or {})}, cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="backslashreplace", timeout=timeout, preexec_fn=before)
    return Result(done.returncode, done.stdout, done.stderr)


def preloading(program, name):
    """The environment that loads tests/support/NAME.c before a program. The address sanitizer refuses to start unless its own library,
    if the program has one, comes before all others."""
    library, source = Path(f"{name}.so").resolve(), SOURCE / "tests" / "support" / f"{name}.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:  # a running program may have it open
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"], check=True)
    needed = subprocess.run(["ldd", str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    sanitizers = re.findall(r"lib(?:asan|clang_rt\.asan)\S* => (\S+)", needed)
    return {"LD_PRELOAD": " ".join([*sanitizers, str(library)])}


class Case(unittest.TestCase):
    """A test case that says what a command printed when it did something else than expected."""

    longMessage = True

    def pipec(self, code, tool, *arguments, saying=(), **how):
        """Runs a command that must exit with `code` and say every text of `saying` (without regard to case) in what it prints."""
        result = run(tool, *arguments, **how)
        shown = f"\n$ {tool} {' '.join(map(str, arguments))}\nexit code {result.code}\n{result.out}{result.err}"
        self.assertEqual(result.code, code, shown)
        for text in [saying] if isinstance(saying, str) else saying:
            self.assertIn(text.lower(), (result.out + result.err).lower(), shown)
        return result

    def refused(self, code, saying, tool, *arguments, **how):
        """A command that must fail: one `error:` line on stderr that says `saying`, nothing on stdout."""
        result = self.pipec(code, tool, *arguments, **how)
        shown = f"\n$ {tool} {' '.join(map(str, arguments))}\n{result.out}{result.err}"
        self.assertEqual(result.out, "", shown)
        lines = [line for line in result.err.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, shown)
        for text in [saying] if isinstance(saying, str) else saying:
            self.assertIn(text, result.err, shown)
        self.assertNotRegex(result.err, r"(?i)terminate called|stack trace|exception raised from|\.cpp:\d", shown)
        return result

    def compiled(self, model, target, *options, **how):
        """Compiles into `target`, replacing what is there, and returns its plan."""
        self.pipec(0, "pipe-compile", model, "-o", target, "--force", *options, **how)
        return plan(target)

    def sameBits(self, expected, actual, what=""):
        """Trees of tensors and plain values that must agree in structure, type, shape, and every bit."""
        difference = firstDifference(expected, actual)
        self.assertIsNone(difference, f"{what}: {difference}")


def plan(directory):
    import json
    return json.loads((Path(directory) / "plan.json").read_text(encoding="utf-8"))


def documented(page, function):
    """What the one Python block of a page of docs that defines this function defines, as a reader would paste it."""
    text = (SOURCE / "docs" / page).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"def {function}(" in block]
    assert len(blocks) == 1, f"docs/{page}: expected one Python block that defines {function}"
    names = {}
    exec(compile(blocks[0], f"docs/{page}", "exec"), names)
    return names


def firstDifference(expected, actual, where="result"):
    """None, or where two trees differ and how. NaN equals NaN of the same bits; 0.0 and -0.0 differ."""
    import torch

    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor):
            return f"{where}: expected a tensor, got {type(actual).__name__}"
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            return f"{where}: expected {expected.dtype} {tuple(expected.shape)}, got {actual.dtype} {tuple(actual.shape)}"
        a, b = (value.detach().contiguous().flatten().view(torch.uint8) for value in (expected, actual))
        return None if torch.equal(a, b) else f"{where}: bits differ, largest difference {(expected.double() - actual.double()).abs().max()}"
    if isinstance(expected, (tuple, list)):
        if not isinstance(actual, type(expected)) or len(expected) != len(actual):
            return f"{where}: expected {len(expected)} values, got {actual if not isinstance(actual, (tuple, list)) else len(actual)}"
        found = (firstDifference(a, b, f"{where}.{i}") for i, (a, b) in enumerate(zip(expected, actual)))
        return next((text for text in found if text), None)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(expected) != list(actual):
            return f"{where}: expected keys {list(expected)}, got {list(actual) if isinstance(actual, dict) else actual}"
        found = (firstDifference(expected[key], actual[key], f"{where}.{key}") for key in expected)
        return next((text for text in found if text), None)
    return None if type(expected) is type(actual) and expected == actual else f"{where}: expected {expected!r}, got {actual!r}"


def reference(model, inputs, microBatches):
    """What plain PyTorch makes of each micro-batch: one thread, graph optimiser off, no gradients."""
    import torch

    pieces = [torch.tensor_split(value, microBatches) for value in inputs]
    with torch.no_grad(), torch.jit.optimized_execution(False):
        return [model(*piece) for piece in zip(*pieces)]


def concatenate(results):
    import torch

    if isinstance(results[0], torch.Tensor):
        return torch.cat(results)
    return tuple(concatenate(parts) for parts in zip(*results))


def leftovers(directory, allowed):
    """Names in a directory that should not be there, hidden ones included."""
    return sorted(set(os.listdir(directory)) - set(allowed))


def files(directory):
    """Every file below a directory with its bytes."""
    directory = Path(directory)
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def workInFreshDirectory():
    """What an earlier run left would hide that something is no longer written."""
    work = Path.cwd() / f"{Path(sys.argv[0]).stem}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    os.chdir(work)


def main():
    arguments = sys.argv[1:]
    options = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    NAMES[:] = [name for name in arguments[:len(arguments) - len(options)] if name != "--"]
    workInFreshDirectory()
    if not have("pipe-compile"):
        sys.exit(f"{BIN}: no pipe-compile there; set PIPEC_BIN")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    program = unittest.main(module="__main__", argv=[sys.argv[0], *options], verbosity=2, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(SKIPPED)

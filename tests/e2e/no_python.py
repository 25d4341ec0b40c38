"""Compiling and running need no Python: none on the PATH, none mapped into the commands, next to nothing in the environment."""
import os
import subprocess

import e2e

NAME = "gpt2"  # traced from a large Python library
MODEL, INPUTS = e2e.MODELS / f"{NAME}.pt", e2e.MODELS / f"{NAME}.inputs.pt"


class NoPython(e2e.Case):
    def alone(self, *command, **extra):
        sanitizers = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
        done = subprocess.run([str(part) for part in command], env={"PATH": "/nonexistent", **sanitizers, **extra}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def testCompileAndRun(self):
        self.alone(e2e.BIN / "pipe-compile", MODEL, "--stages", 4, "--inputs", INPUTS, "-o", "alone.pipe")
        printed = self.alone(e2e.BIN / "pipe-run", "alone.pipe", "--inputs", e2e.MODELS / f"{NAME}.inputs4.pt", "--microbatches", 4,
                             *e2e.BITS, "--expect", e2e.MODELS / f"{NAME}.expected4.pt")
        self.assertIn("PASSED", printed)

    def testLibraries(self):
        for tool in ("pipe-compile", "pipe-run", "pipe-check", "pipe-merge", "pipe-inspect", "pipe-schedule", "pipe-opt"):
            if e2e.have(tool):
                self.assertNotIn("python", "\n".join(line.split("=>")[0] for line in self.alone(
                    e2e.BIN / tool, LD_TRACE_LOADED_OBJECTS="1").splitlines()), tool)


if __name__ == "__main__":
    e2e.main()

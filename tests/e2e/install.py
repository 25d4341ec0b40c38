"""cmake --install into a prefix that is then moved: the commands run from there, and a project elsewhere uses both libraries through
find_package(pipec) without LibTorch's headers. install.py CMAKE BUILD-DIRECTORY COMPILER sanitize=[SANITIZERS]"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import e2e

COMMANDS = ["pipe-check", "pipe-compile", "pipe-inspect", "pipe-merge", "pipe-opt", "pipe-run", "pipe-schedule"]
HEADERS = [f"{name}.h" for name in ("Checkpointing", "CompileOptions", "CompileReport", "Compiled", "Compiler", "CutSource", "Failure", "Finding", "ForwardOnly", "Obligation", "ParameterOptimizer", "PartSizes", "PassTimes", "Pipeline", "Plan", "Program", "Progress", "RecomputeWish",
                                    "ResultCheck", "RunTrace", "Schedule", "Timing", "TrainingOptions", "ValueTree")]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(pipec 0.1 REQUIRED CONFIG)
add_executable(consumer split_in_program.cpp)
target_link_libraries(consumer PRIVATE pipec::compiler pipec::runtime)
# Each public header by itself.
file(GLOB headers ${CMAKE_CURRENT_SOURCE_DIR}/header_*.cpp)
add_library(headers OBJECT ${headers})
target_link_libraries(headers PRIVATE pipec::compiler pipec::runtime)
enable_testing()
pipec_add_artifact_test(NAME artifact ARTIFACT consumer.pipe)
"""
MODEL, INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs4.pt"


def shell(*command, **how):
    """Runs a command to its end; its output goes into what a failing test prints."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, **how)


class Install(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.cmake, cls.build, cls.compiler, sanitize = e2e.NAMES
        cls.sanitize = sanitize.removeprefix("sanitize=")
        first = Path("first").resolve()
        done = shell(cls.cmake, "--install", cls.build, "--prefix", first)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.prefix = Path("a moved place").resolve()
        first.rename(cls.prefix)
        cls.gone = [str(first), str(Path(cls.build).resolve())]  # nothing may still ask for these

    def ok(self, *command, **how):
        done = shell(*command, **how)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def files(self, folder):
        root = self.prefix / folder
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())

    def testWhatIsInstalled(self):
        self.assertEqual(self.files("bin"), COMMANDS)
        self.assertEqual(self.files("include"), [f"pipec/{name}" for name in HEADERS])
        self.assertEqual(self.files("share/man/man1"), [f"{name}.1" for name in COMMANDS])
        self.assertEqual(self.files("share/bash-completion/completions"), COMMANDS)
        self.assertEqual(self.files("share/zsh/site-functions"), [f"_{name}" for name in COMMANDS])
        self.assertEqual(self.files("share/fish/vendor_completions.d"), [f"{name}.fish" for name in COMMANDS])
        self.assertLessEqual({"libpipec_compiler.a", "libpipec_runtime.a", "libpipec_ops.so", "cmake/pipec/pipecConfig.cmake",
                              "cmake/pipec/pipecConfigVersion.cmake"}, set(self.files("lib")))
        for name in ("LICENSE", "README.md", "docs/install.md", "docs/examples/split_in_program.cpp"):
            self.assertTrue((self.prefix / "share/doc/pipec" / name).is_file(), name)

    def testWhatIsBuiltForIt(self):
        """The target `installed`, which tools/demo builds, makes every built file that the install rules name."""
        build = Path(self.build).resolve()
        made = {str(build / name.strip()) for name in self.ok("ninja", "-C", build, "-t", "query", "installed").splitlines()}
        rules = (build / "cmake_install.cmake").read_text(encoding="utf-8")
        named = re.findall(r'"((?:%s)/[^"$]+)"' % re.escape(str(build)), rules)
        built = {name for name in named if name.endswith((".a", ".so")) or Path(name).parent.name == "bin"}
        self.assertGreaterEqual(len(built), len(COMMANDS) + 9)
        self.assertEqual(built - made, set(), "installed, but not built by the target `installed`")
        self.assertRegex((e2e.SOURCE / "tools/demo").read_text(encoding="utf-8"), r'tools/build "\$preset" installed\b')

    def testNothingNamesWhereItWasBuilt(self):
        texts = [path for folder in ("lib/cmake", "share/man", "share/bash-completion", "share/zsh", "share/fish")
                 for path in (self.prefix / folder).rglob("*") if path.is_file()]
        self.assertGreater(len(texts), 20)
        for path in texts:
            for place in [*self.gone, str(e2e.SOURCE)]:
                self.assertNotIn(place, path.read_text(encoding="utf-8"), path)
        for path in [*(self.prefix / "bin").iterdir(), self.prefix / "lib/libpipec_ops.so"]:
            asked = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", self.ok("readelf", "-d", path))
            self.assertEqual(len(asked), 1, path)
            for place in asked[0].split(":"):
                self.assertRegex(place, r"^\$ORIGIN/", path)

    def testCommandsRunFromThere(self):
        sanitizers = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
        environment = {"PATH": "/nonexistent", **sanitizers}
        self.ok(self.prefix / "bin/pipe-compile", MODEL, "--stages", 2, "--inputs", e2e.MODELS / "mlp.inputs.pt", "-o", "mlp.pipe",
                env=environment)
        printed = self.ok(self.prefix / "bin/pipe-run", "mlp.pipe", "--inputs", INPUTS, "--microbatches", 4, *e2e.BITS, "--expect",
                          e2e.MODELS / "mlp.expected4.pt", env=environment)
        self.assertIn("PASSED", printed)

    def testOpsLibrary(self):
        import torch
        torch.ops.load_library(self.prefix / "lib/libpipec_ops.so")
        self.assertTrue(torch.ops.pipec.pipe_split(torch.ones(1)).item())

    def configure(self, name, *options):
        """A project of C++ only, in a directory of its own, that knows the prefix and nothing else."""
        source = Path(name).resolve()
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
        shutil.copy(e2e.SOURCE / "docs/examples/split_in_program.cpp", source)
        for name in HEADERS:
            (source / f"header_{name}.cpp").write_text(f"#include <pipec/{name}>\n", encoding="utf-8")
        return source / "build", shell(self.cmake, "-G", "Ninja", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                                       f"-DCMAKE_CXX_COMPILER={self.compiler}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                                       # A program that links instrumented libraries is instrumented too.
                                       *([f"-DCMAKE_CXX_FLAGS=-fsanitize={self.sanitize} -fno-sanitize=vptr"] if self.sanitize else []),
                                       *options)

    def testProgram(self):
        build, configured = self.configure("consumer")
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.ok(self.cmake, "--build", build)
        self.assertNotIn("torch", (build / "compile_commands.json").read_text(encoding="utf-8").lower())
        read = self.ok("ninja", "-C", build, "-t", "deps")
        self.assertIn("/include/pipec/Compiler.h", read)
        self.assertNotRegex(read, r"(?i)torch|aten|c10|/fmt/")
        self.assertRegex(self.ok(build / "consumer", MODEL, INPUTS, "consumer.pipe"), r"result: float32[^$]*[2-9] stages took")
        self.ok(build / "consumer", MODEL, INPUTS, build.parent / "consumer.pipe")
        self.assertIn("0 tests failed out of 1", self.ok(Path(self.cmake).parent / "ctest", "--test-dir", build))

    def testWithoutLibTorch(self):
        _, configured = self.configure("lost", "-DPIPEC_TORCH=/nonexistent")
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("no LibTorch in /nonexistent", " ".join(configured.stderr.split()))


if __name__ == "__main__":
    e2e.main()

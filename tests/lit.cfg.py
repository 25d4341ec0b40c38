# lit's configuration for tests/passes: text files with RUN and CHECK lines; docs/testing.md says how to write one.
import os
import sys

import lit.formats

config.name = "pipec-passes"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir", ".ts", ".test", ".py"]
config.excludes = ["Inputs"]
config.test_source_root = config.pipec_source + "/tests/passes"
config.test_exec_root = config.pipec_build + "/tests/passes"

# The commands under test, FileCheck and not are called by name.
config.environment["PATH"] = ":".join([config.pipec_bin, config.filecheck_dir, "/usr/bin", "/bin"])
# %refused NAME COMMAND...: the command exits 4 with exactly the row NAME of the table of refusals.
config.substitutions.append(("%refused", f"{sys.executable} {config.pipec_source}/tests/support/refused.py"))
config.substitutions.append(("%python", sys.executable))
# One thread each: lit already runs as many tests at once as there are cores.
config.environment["OMP_NUM_THREADS"] = "1"
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

"""A command of pipec that is started once and forked for every run: what LibTorch's start takes, most of a small run, is paid once."""
import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path

import e2e


class ForkServer:
    """Each run is a process of its own, with its own arguments, output and exit code. One run at a time."""

    def __init__(self, tool):
        self.tool = tool
        self.files = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([str(e2e.BIN / tool)], env={**os.environ, **e2e.preloading(e2e.BIN / tool, "fork_server")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        bufsize=0, start_new_session=True)

    def run(self, *arguments, timeout=300):
        """As e2e.run. Where the server has ended, the command is started anew."""
        out, err = Path(self.files.name) / "out", Path(self.files.name) / "err"
        words = [str(len(arguments)), str(out), str(err), *map(str, arguments)]
        try:
            self.process.stdin.write(b"".join(word.encode() + b"\0" for word in words))
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired([self.tool, *words[3:]], timeout)
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            reply = b""
        if not reply:
            return e2e.run(self.tool, *arguments)
        return e2e.Result(int(reply), out.read_text(errors="backslashreplace"), err.read_text(errors="backslashreplace"))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.files.cleanup()

"""For gpu-timing.py and gpu-training.py: their arguments, and how they run a command of a build."""
import argparse
import os
import subprocess
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"


def parsed(about, models):
    """The arguments of a script: bin, work, device, short, models."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("bin", type=os.path.abspath, help="directory of the commands")
    parser.add_argument("work", type=os.path.abspath, help="directory for files")
    parser.add_argument("device", nargs="?", default="cuda:0")
    parser.add_argument("--short", action="store_true", help="a few seconds: shows that the script works, measures nothing of use")
    parser.add_argument("--models", type=lambda text: text.split(","), metavar="NAME,...", help="only these of: " + ", ".join(models))
    arguments = parser.parse_args()
    if unknown := set(arguments.models or ()) - set(models):
        parser.error(f"unknown models: {', '.join(sorted(unknown))}")
    return arguments


def run(*command, env=None):
    """What the command prints. Raises RuntimeError with the command's name, first argument and message if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})})
    except OSError as error:
        raise RuntimeError(str(error)) from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(os.path.basename, words[:2]))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout

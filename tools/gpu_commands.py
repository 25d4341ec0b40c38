"""For gpu-timing.py and gpu-training.py: runs a command of a build."""
import os
import subprocess


def run(*command, env=None):
    """What the command prints. Raises RuntimeError with the command's name, first argument and message if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(os.path.basename, words[:2]))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout

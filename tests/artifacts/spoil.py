"""Makes an artifact that must be refused out of a kept one: spoil.py NAME DIRECTORY. See README.md."""
import hashlib
import json
import shutil
import sys
from pathlib import Path

KEPT = Path(__file__).parent / "v1-mlp" / "model.pipe"


def manifest(artifact):
    """Files as their author would have written them: their digests are right."""
    files = sorted(path for path in artifact.iterdir() if path.name != "MANIFEST")
    (artifact / "MANIFEST").write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))


def plan(edit):
    """A plan that was written otherwise."""
    def spoil(artifact):
        path = artifact / "plan.json"
        written = json.loads(path.read_text())
        edit(written)
        path.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        manifest(artifact)

    return spoil


def torn(artifact):
    """A copy that stopped half-way."""
    path = artifact / "stage-2.pt"
    path.write_bytes(path.read_bytes()[:1000])


def flipped(artifact):
    """One bit of a weight, as a bad disk does it."""
    path = artifact / "stage-1.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def otherStage(artifact):
    """A stage of the wrong place, under digests that are right."""
    shutil.copy(artifact / "stage-0.pt", artifact / "stage-1.pt")
    manifest(artifact)


# What is written, the exit code and words of the message.
SPOILT = {
    "newer-major": (plan(lambda p: p["format_version"].update(major=2, minor=0)), 6, ["2.0", "1."]),
    "unknown-feature": (plan(lambda p: p["required_features"].append("from-the-future")), 6, ["from-the-future"]),
    "unknown-key": (plan(lambda p: p.update(surprise=1)), 5, ["surprise"]),
    "torn": (torn, 5, ["stage-2.pt"]),
    "flipped-bit": (flipped, 5, ["stage-1.pt"]),
    "other-stage": (otherStage, 5, ["expected c0, got x"]),
    "no-schedule": (lambda artifact: (artifact / "schedule.csv").unlink(), 5, ["schedule.csv"]),
}


def main(name, directory):
    spoil, code, saying = SPOILT[name]
    folder = Path(directory) / name
    shutil.copytree(KEPT, folder / "model.pipe")
    spoil(folder / "model.pipe")
    (folder / "refusal.json").write_text(json.dumps({"code": code, "saying": saying}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Makes the model zoo: real architectures with random weights and fixed seeds, saved as TorchScript.

    zoo.py DIRECTORY [NAME...]      --list prints the names

For each NAME: NAME.pt, example inputs of batch 2 (NAME.inputs.pt) and batch 4 (NAME.inputs4.pt), tuples of arguments written by
torch.save. All together 2.5 GB and a minute and a half. A model is made again only when these scripts or a library changed.
"""
import copy
import hashlib
import os
import sys
import warnings
from importlib import metadata
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch

from registry import MODELS

import libraries, own, further  # noqa: E401,F401  each registers its models

warnings.filterwarnings("ignore")


def stamp():
    versions = "".join(metadata.version(library) for library in ("torch", "torchvision", "timm", "transformers"))
    scripts = "".join(path.read_text() for path in sorted(HERE.glob("*.py")))
    return hashlib.sha256((versions + scripts).encode()).hexdigest()


def make(name, directory):
    """Writes one model and its inputs, unless they are there and as the scripts make them."""
    done = directory / f"{name}.stamp"
    if done.exists() and done.read_text() == stamp():
        return
    entry = MODELS[name]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, inputsFor = entry.build()
    values = {}
    for seed, (suffix, batch) in enumerate((("", 2), ("4", 4)), 1):
        torch.manual_seed(seed)
        values[suffix] = inputsFor(batch)
    with torch.no_grad():
        if entry.save == "script":
            saved = torch.jit.script(module)
        else:
            saved = torch.jit.trace(module, copy.deepcopy(values[""]), strict=False, check_trace=False)
        saved.save(str(directory / f"{name}.pt"))
    for suffix, arguments in values.items():
        torch.save(arguments, directory / f"{name}.inputs{suffix}.pt")
    done.write_text(stamp())


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(MODELS))
        return 0
    unknown = [name for name in arguments[1:] if name not in MODELS]
    if not arguments or unknown:
        print(__doc__ if not arguments else f"zoo.py: no model named {', '.join(unknown)}", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for name in arguments[1:] or MODELS:
        make(name, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

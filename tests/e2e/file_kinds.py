"""A file of another kind where a model, values or an artifact is wanted: it is named as what it is, whatever its name, with what to do; and what
the help says works."""
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import safetensors.torch
import torch
from torch import nn

import e2e

USAGE, UNREADABLE, DAMAGED = 2, 3, 5
MODEL, INPUTS = e2e.MODELS / "mlp.pt", e2e.MODELS / "mlp.inputs.pt"


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


def field(number, data):
    """A field of a protobuf message: a number, or bytes with their length."""
    if isinstance(data, int):
        return bytes([number << 3, data])
    return bytes([number << 3 | 2, len(data)]) + data


def onnx():
    node = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu"))
    return field(1, 8) + field(2, b"pytorch") + field(7, node + field(2, b"main")) + field(8, field(2, 17))


def savedModel():
    return field(1, 1) + field(2, field(1, b"meta"))


def zipOf(path, **entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def make():
    """Every file, with what it is called as a model and as values (None: not asked), and a word of the help."""
    model, x = Small().eval(), torch.ones(2, 4)
    torch.save(model.state_dict(), "state.pt")
    torch.save(dict(model.state_dict()), "dict.pt")
    torch.save({"epoch": 1, "state_dict": model.state_dict(), "optimizer": {}}, "checkpoint.pt")
    torch.save({"model": model.state_dict(), "epoch": 3}, "model_and_epoch.pt")
    torch.save({"epoch": 3, "net": model.state_dict()}, "epoch_and_net.pt")
    adam, fresh = torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).sum().backward()
    adam.step()
    torch.save(adam.state_dict(), "adam.pt")
    torch.save(fresh.state_dict(), "fresh.pt")
    torch.save(adam.state_dict(), "legacy_adam.pth", _use_new_zipfile_serialization=False)
    torch.save({"state": model.state_dict(), "optimizer": adam.state_dict()}, "state_and_optimizer.pt")
    torch.save(model, "module.pt")
    torch.save(nn.Sequential(nn.Linear(2, 2)), "sequential.pt")
    torch.save(model.state_dict(), "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save(model, "legacy_module.pth", _use_new_zipfile_serialization=False)
    torch.save(x, "legacy_tensor.pth", _use_new_zipfile_serialization=False)
    torch.save((x,), "values.pt")
    torch.export.save(torch.export.export(model, (x,)), "program.pt2")
    torch.jit.script(model).save("scripted.pt")
    numpy.save("array.npy", numpy.ones((2, 4), "f4"))
    numpy.savez("arrays.npz", x=numpy.ones((2, 4), "f4"))
    safetensors.torch.save_file({"x": x}, "weights.safetensors")
    for name, value in (("plain.pkl", {"a": 1}), ("numpy.pkl", numpy.ones(3))):
        Path(name).write_bytes(pickle.dumps(value))
    Path("model.onnx").write_bytes(onnx())
    Path("saved_model.pb").write_bytes(savedModel())
    Path("keras.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    Path("model.tflite").write_bytes(struct.pack("<I", 28) + b"TFL3" + bytes(100))
    Path("model.gguf").write_bytes(b"GGUF" + bytes(100))
    Path("model.tar").write_bytes(bytes(257) + b"ustar\x0000" + bytes(300))
    Path("model.pt.gz").write_bytes(b"\x1f\x8b\x08" + bytes(100))
    Path("lfs.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    Path("page.html").write_text("<!DOCTYPE html>\n<html></html>\n")
    Path("source.py").write_text("import torch\n")
    Path("config.json").write_text('{"layers": 2}\n')
    zipOf("keras.keras", **{"metadata.json": "{}", "config.json": "{}", "model.weights.h5": "x"})
    zipOf("other.zip", **{"letter.txt": "x"})
    return [
        ("state.pt", "a state dict", "a state dict", "load_state_dict"),
        ("dict.pt", "a state dict", None, "load_state_dict"),
        ("checkpoint.pt", "a checkpoint", None, "load_state_dict"),
        ("model_and_epoch.pt", "a training checkpoint that holds a state dict under 'model'", None, "weights_only=False)['model'])"),
        ("epoch_and_net.pt", "a training checkpoint that holds a state dict under 'net'", None, "weights_only=False)['net'])"),
        ("adam.pt", "the state of an optimizer (optimizer.state_dict()), which holds no model", None, "save the model itself"),
        ("fresh.pt", "the state of an optimizer", None, "save the model itself"),
        ("legacy_adam.pth", "the state of an optimizer", "the state of an optimizer", "save the model itself"),
        ("state_and_optimizer.pt", "a checkpoint", None, "load_state_dict"),
        ("module.pt", "a pickled module, an object of class __main__.Small", "a pickled module", "torch.jit.script(torch.load"),
        ("sequential.pt", "a pickled module, an object of class torch.nn.modules.container.Sequential", "a pickled module", "torch.jit.script"),
        ("legacy.pth", "a state dict", "a state dict", "load_state_dict"),
        ("legacy_module.pth", "a pickled module", "a pickled module", "torch.jit.script"),
        ("legacy_tensor.pth", "before PyTorch 1.6", "before PyTorch 1.6", "torch.jit.script"),
        ("values.pt", "values or weights that torch.save wrote", None, "torch.jit.script"),
        ("program.pt2", "an exported program (.pt2)", "an exported program (.pt2)", "torch.export.load"),
        ("scripted.pt", None, "a TorchScript model", None),
        ("array.npy", "a NumPy array (.npy)", "a NumPy array (.npy)", "torch.jit.script"),
        ("arrays.npz", "NumPy arrays (.npz)", "NumPy arrays (.npz)", "torch.jit.script"),
        ("weights.safetensors", "weights in the safetensors format", "weights in the safetensors format", "safetensors.torch.load_file"),
        ("plain.pkl", "a pickle", "a pickle", "torch.jit.script"),
        ("numpy.pkl", "a pickle", "a pickle", "torch.jit.script"),
        ("model.onnx", "an ONNX model", "an ONNX model", "TorchScript"),
        ("saved_model.pb", "a TensorFlow SavedModel", "a TensorFlow SavedModel", "torch.jit.script"),
        ("keras.h5", "an HDF5 file", "an HDF5 file", "torch.jit.script"),
        ("model.tflite", "a TensorFlow Lite model", "a TensorFlow Lite model", "torch.jit.script"),
        ("model.gguf", "a GGUF model", "a GGUF model", "torch.jit.script"),
        ("model.tar", "a tar archive", "a tar archive", "unpack"),
        ("model.pt.gz", "a file compressed by gzip", "a file compressed by gzip", "unpack"),
        ("lfs.pt", "a pointer of Git LFS", "a pointer of Git LFS", "git lfs pull"),
        ("page.html", "an HTML page", "an HTML page", "download"),
        ("source.py", "text", "text", "torch.jit.script"),
        ("config.json", "JSON text", "JSON text", "torch.jit.script"),
        ("keras.keras", "a Keras model", "a Keras model", "torch.jit.script"),
        ("other.zip", "a zip archive of something else, with letter.txt", "a zip archive", "torch.jit.script"),
    ]


class FileKinds(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.files = make()
        made = e2e.run("pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "-o", "whole.pipe")
        assert made.code == 0, made.err

    def renamed(self, name):
        """The same file by a name that says nothing."""
        path = Path("named_otherwise.pt")
        path.write_bytes(Path(name).read_bytes())
        return path

    def testAsModels(self):
        for name, what, _, help in self.files:
            if not what:
                continue
            for path in (Path(name), self.renamed(name)):
                with self.subTest(file=name, path=str(path)):
                    saying = [f"{path}: expected a TorchScript model, got ", what, "help: ", help]
                    self.refused(UNREADABLE, saying, "pipe-compile", path, "--at", "head", "-o", "never.pipe")
                    self.refused(UNREADABLE, saying, "pipe-run", path, "--inputs", INPUTS)
                    self.refused(UNREADABLE, saying, "pipe-inspect", path)
        self.assertFalse(Path("never.pipe").exists())

    def testAsValues(self):
        for name, _, what, _ in self.files:
            if not what:
                continue
            with self.subTest(file=name):
                path = self.renamed(name)
                saying = [f"{path}: expected values that torch.save wrote, got ", what, "help: "]
                self.refused(UNREADABLE, saying, "pipe-compile", MODEL, "--stages", 2, "--inputs", path, "-o", "never.pipe")
                self.refused(UNREADABLE, saying, "pipe-run", "whole.pipe", "--inputs", path)
                self.refused(UNREADABLE, saying, "pipe-run", "whole.pipe", "--inputs", INPUTS, "--expect", path)

    def testAsArtifacts(self):
        for tool, more in (("pipe-check", []), ("pipe-merge", ["-o", "never.pt"])):
            self.refused(USAGE, [f"{MODEL}: expected an artifact (a directory), got a TorchScript model", "pipe-compile"], tool, MODEL, *more)
            self.refused(USAGE, ["model.onnx: expected an artifact (a directory), got an ONNX model"], tool, "model.onnx", *more)

    def testWhereTextIsExpected(self):
        """Tables, costs, clusters and models as text: no bytes of another file are quoted, and no parser is named."""
        compile = ["pipe-compile", MODEL, "--stages", 2, "--inputs", INPUTS, "-o", "never.pipe"]
        for path, what in ((MODEL, "a TorchScript model"), ("model.onnx", "an ONNX model"), (e2e.BIN / "pipe-schedule", "a library or program"), ("/dev/zero", "binary data")):
            for code, option, wanted, command in (
                    (USAGE, "--costs: ", "JSON", ["pipe-schedule", "1f1b", "--costs", path]), (USAGE, "--cluster: ", "JSON", ["pipe-schedule", "1f1b", "--cluster", path]),
                    (USAGE, "--cost: ", "JSON", [*compile, "--cost", path]), (USAGE, "--cluster: ", "JSON", [*compile, "--cluster", path]),
                    (UNREADABLE, "", "a table or a program", ["pipe-schedule", path]), (UNREADABLE, "--schedule: ", "a table of a schedule", [*compile, "--schedule", path]),
                    (UNREADABLE, "--schedule: ", "a table of a schedule", ["pipe-run", "whole.pipe", "--inputs", INPUTS, "--schedule", path])):
                with self.subTest(file=str(path), command=" ".join(map(str, command[:3]))):
                    self.refused(code, f"error: {option}{path}: expected {wanted}, got {what}\n", *command, timeout=20)
        self.refused(UNREADABLE, "/dev/zero: expected a model as text, got binary data", "pipe-opt", "/dev/zero", timeout=20)
        Path("page.json").write_text("<!DOCTYPE html><html>404</html>")
        self.refused(USAGE, "page.json: expected JSON, got an HTML page", "pipe-schedule", "1f1b", "--costs", "page.json")

    def testTextsOfAnySizeAreRefused(self):
        with open("large.csv", "wb") as file:
            file.truncate(3 << 30)
        self.refused(UNREADABLE, "large.csv: too large: expected at most 1.00 GiB, got 3.00 GiB", "pipe-schedule", "large.csv")
        self.refused(USAGE, "--cluster: large.csv: too large: expected at most 16.0 MiB, got 3.00 GiB", "pipe-schedule", "1f1b", "--cluster", "large.csv")
        Path("large.csv").unlink()
        # A pipe has no size. A process that has less memory than it needs ends as one that is out of memory.
        endless = ["sh", "-c", f"ulimit -v 600000; yes 0F0 | exec {e2e.BIN / 'pipe-schedule'} -"]
        done = subprocess.run(endless, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 10, done)
        self.assertIn("error: pipe-schedule: out of memory", done.stderr)

    def testDirectories(self):
        def folder(name, *files):
            Path(name).mkdir()
            for file in files:
                (Path(name) / file).write_bytes(b"x")
            return name

        for path, what in ((folder("tf", "saved_model.pb"), "a TensorFlow SavedModel"),
                           (folder("hf", "config.json", "model.safetensors"), "a directory of a checkpoint"),
                           (folder("dcp", ".metadata", "__0_0.distcp"), "a distributed checkpoint"),
                           (folder("unpacked", "data.pkl", "constants.pkl"), "an unpacked TorchScript archive")):
            with self.subTest(directory=path):
                self.refused(UNREADABLE, [f"{path}: expected a TorchScript model, got {what}", "help: "], "pipe-compile", path, "--at", "head")
                for tool, more in (("pipe-run", ["--inputs", INPUTS]), ("pipe-inspect", []), ("pipe-merge", ["-o", "never.pt"])):
                    self.refused(UNREADABLE, [f"{path}: expected an artifact, got {what}"], tool, path, *more)
                self.refused(UNREADABLE, [f"{path}: expected values that torch.save wrote, got {what}"], "pipe-run", MODEL, "--inputs", path)
        self.refused(UNREADABLE, ["whole.pipe: expected a TorchScript model, got an artifact of pipe-compile", "compiled from"], "pipe-compile",
                     "whole.pipe", "--at", "head", "-o", "never.pipe")
        # Its own name is the default target, which exists.
        self.refused(UNREADABLE, ["whole.pipe: expected a TorchScript model, got an artifact of pipe-compile", "compiled from"], "pipe-compile", "whole.pipe", "--stages", 2)
        self.refused(UNREADABLE, ["whole.pipe: expected values that torch.save wrote, got an artifact"], "pipe-run", MODEL, "--inputs", "whole.pipe")

    def testLibTorchsWordsStandBehindOurs(self):
        """A model that LibTorch cannot read: our sentence, then one line of its own."""
        with zipfile.ZipFile(MODEL) as archive, zipfile.ZipFile("torn.pt", "w") as torn:
            for info in archive.infolist():
                data = archive.read(info)
                torn.writestr(info, data.replace(b"def forward", b"def f(rward") if "/code/" in info.filename and info.filename.endswith(".py") else data)
        result = self.refused(UNREADABLE, "torn.pt: LibTorch cannot read this TorchScript model: ", "pipe-run", "torn.pt", "--inputs", INPUTS)
        self.assertLessEqual(len(result.err.splitlines()), 2, result.err)

    def testTheHelpWorks(self):
        """What the help says for files that can be made into models and inputs, pasted into Python."""
        lines = {
            "program.pt2": "torch.jit.trace(torch.export.load(FILE).module(), inputs).save('made.pt')",
            "array.npy": "torch.save(torch.from_numpy(numpy.load(FILE)), 'made.pt')",
            "arrays.npz": "torch.save({name: torch.from_numpy(array) for name, array in numpy.load(FILE).items()}, 'made.pt')",
            "weights.safetensors": "torch.save(safetensors.torch.load_file(FILE), 'made.pt')",
            "legacy_tensor.pth": "torch.save(torch.load(FILE), 'made.pt')",
        }
        for name, line in lines.items():
            with self.subTest(file=name):
                isModel = name == "program.pt2"
                command = ["pipe-inspect", name] if isModel else ["pipe-run", "scripted.pt", "--inputs", name]
                said = self.refused(UNREADABLE, "help: ", *command).err.split("help: ", 1)[1]
                self.assertIn(line.replace("made.pt", "model.pt" if isModel else "inputs.pt"), said)
                before = "import torch, numpy, safetensors.torch\ninputs = (torch.ones(2, 4),)\n"
                subprocess.run([sys.executable, "-W", "ignore", "-c", before + line.replace("FILE", repr(name))], check=True, timeout=300)
                if isModel:
                    self.pipec(0, "pipe-run", "made.pt", "--inputs", "f32[2,4]")
                else:
                    self.pipec(0, "pipe-run", "scripted.pt", "--inputs", "made.pt")


if __name__ == "__main__":
    e2e.main()

"""pipe-inspect --html: a page that is HTML, has everything of its plan, needs nothing from outside, and lets no name become markup."""
import html.parser
import json
import re
import shutil
from pathlib import Path

import torch

import e2e

USAGE, DAMAGED, IO = 2, 5, 8
INPUTS = ["--inputs", "f32[2,8]"]
VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE = ["<script>alert(1)</script>", "a' onload='x' & b", "</title></style><b>"]


class Page(html.parser.HTMLParser):
    """The tags of a page, every one closed where it should be, and its text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.faults = [], [], [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"never closed: {self.open}")
        self.text = "\n".join(self.words)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


class Hostile(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in HOSTILE:
            self.add_module(name, torch.nn.Linear(8, 8))

    def forward(self, x):
        for module in list(self._modules.values()):
            x = module(x).relu()
        return x


class Deep(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(layers))

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = layer(y)
        return x + y


class Inspect(e2e.Case):
    def page(self, artifact, *options, name="page.html"):
        """The page of an artifact, after everything that must hold of any."""
        self.pipec(0, "pipe-inspect", artifact, "--html", name, "--force", *options)
        text = Path(name).read_text(encoding="utf-8")
        page = Page(text)
        self.assertEqual(page.faults, [], name)
        self.assertTrue({"html", "head", "title", "body", "style", "svg", "table"} <= set(page.tags))
        self.assertFalse({"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags))
        for tag, attribute, value in page.attributes:
            self.assertFalse(attribute.startswith("on"), (tag, attribute))
            if attribute in ("href", "src", "action", "xlink:href"):
                self.assertTrue(value.startswith("#"), (tag, attribute, value))
        self.assertNotRegex(text, r"(?i)\burl\(|@import|https?:|//[a-z]")
        identities = [value for _, attribute, value in page.attributes if attribute == "id"]
        self.assertEqual(len(identities), len(set(identities)))
        plan = e2e.plan(artifact)
        for index, stage in enumerate(plan["stages"]):
            self.assertRegex(page.text, rf"(?m)^stage {index}$")
            self.assertIn(f"{stage['nodes']} node", page.text)
            for module in (stage["first_module"], stage["last_module"]):
                self.assertIn(module, page.text)
            for attribute in stage["attributes"]:
                if attribute["channel"] is None and "." in attribute["name"]:
                    self.assertRegex(page.text, rf"(?m)^{re.escape(attribute['name'].split('.')[-2])}$")
        for channel in plan["channels"]:
            readers = sorted({to["stage"] for to in channel["to"]})
            self.assertIn(f"{channel['name']}: stage {channel['from']['stage']} to {', '.join(map(str, readers))}: ", page.text)
        for tie in plan["ties"]:
            self.assertIn(", ".join(tie["names"]), page.text)
        for obligation in plan["obligations"]:
            self.assertIn(obligation, page.text)
        boxes = re.findall(r"^(\d+F\d+): .* to ", page.text, re.MULTILINE)
        self.assertEqual(sorted(boxes), sorted(cell for row in Path(artifact, "schedule.csv").read_text().split() for cell in row.split(",")
                                               if "F" in cell))
        return page

    def model(self, module, name):
        torch.manual_seed(0)
        torch.jit.save(torch.jit.trace(module.eval(), torch.randn(2, 8)), name)
        return name

    def testModels(self):
        """A chain, a net full of skips, tied weights, markers without costs."""
        for name, options in (("mlp", ["--stages", 3]), ("unet", ["--stages", 4]), ("gpt2", ["--stages", 3, "--tied", "transmit"]), ("t5", ["--stages", 2]),
                              ("mlp_markers", [])):
            with self.subTest(model=name):
                self.compiled(e2e.MODELS / f"{name}.pt", f"{name}.pipe", "--inputs", e2e.MODELS / f"{name}.inputs.pt", *options)
                page = self.page(f"{name}.pipe")
                equal = name == "mlp_markers"
                self.assertEqual("This plan has no costs, so every stage is drawn with one step" in page.text, equal)
                self.assertEqual("Prediction for" in page.text, not equal)
                self.assertIn("the stages linked together are the source", page.text)
                if name == "unet":
                    self.assertIn("no: a value or weight goes to a stage other than the next", page.text)

    def testTableForPyTorch(self):
        """With sends and receives where all goes to the next stage; else the channel that does not is named."""
        for name, stages in (("mlp", 3), ("unet", 4)):
            self.compiled(e2e.MODELS / f"{name}.pt", f"{name}.pipe", "--inputs", e2e.MODELS / f"{name}.inputs.pt", "--stages", stages)
        self.pipec(0, "pipe-inspect", "mlp.pipe", "--comms", "mlp.csv", "--force")
        rows = [row.split(",") for row in Path("mlp.csv").read_text().split()]
        count = e2e.plan("mlp.pipe")["microbatches"]
        self.assertEqual([sum("SEND_F" in cell for cell in row) for row in rows], [count] * (len(rows) - 1) + [0])
        self.assertEqual([sum("RECV_F" in cell for cell in row) for row in rows], [0] + [count] * (len(rows) - 1))
        skipped = self.pipec(2, "pipe-inspect", "unet.pipe", "--comms", "unet.csv")
        self.assertRegex(skipped.err, r"channel \d+ \(\S+\) goes from stage \d to stage \d: PyTorch sends to the next stage only")
        self.assertFalse(Path("unet.csv").exists())
        self.assertIn("--comms: expected an artifact", self.pipec(2, "pipe-inspect", e2e.MODELS / "mlp.pt", "--comms", "never.csv").err)
        self.assertIn("exists", self.pipec(2, "pipe-inspect", "mlp.pipe", "--comms", "mlp.csv").err)

    def testSizesAreWords(self):
        self.compiled(e2e.MODELS / "unet.pt", "sizes.pipe", "--inputs", e2e.MODELS / "unet.inputs.pt", "--stages", 4)
        page = self.page("sizes.pipe")
        skips = [channel for channel in e2e.plan("sizes.pipe")["channels"] if channel["skip"]]
        self.assertGreater(len(skips), 0)
        for channel in skips:
            self.assertRegex(page.text, rf"{channel['name']}: stage .*: float32\[B,.*\], [0-9.]+ KiB, skip")

    def testTimesAreThoseOfTheCompile(self):
        done = e2e.run("pipe-compile", e2e.MODELS / "mlp.pt", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 3, "-o", "times.pipe", "--force", "--json")
        step = json.loads(done.out)["prediction"]["step_ms"]
        page = self.page("times.pipe")
        shown = re.search(r"a step takes ([0-9.]+) (us|ms)", page.text)
        self.assertAlmostEqual(float(shown[1]) / (1000 if shown[2] == "us" else 1), step, delta=step * 0.01)

    def testCostsOfModules(self):
        self.compiled(e2e.MODELS / "mlp.pt", "plain.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2, "--emit-costs", "costs.json")
        plain = self.page("plain.pipe").text
        for text in ("Modules have no costs here", "predicted from the analytic cost model"):
            self.assertIn(text, plain)
        self.compiled(e2e.MODELS / "mlp.pt", "costs.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2, "--cost", "costs.json")
        page = self.page("costs.pipe")
        self.assertIn("predicted from costs.json", page.text)
        self.assertNotIn("Modules have no costs here", page.text)
        self.assertRegex(page.text, r"s, 100\.0 %")

    def testNamesStayText(self):
        model = self.model(Hostile(), "hostile.pt")
        self.compiled(model, "<i>hostile&.pipe", *INPUTS, "--stages", 3)
        page = self.page("<i>hostile&.pipe")
        self.assertNotIn("script", page.tags)
        self.assertIn("<i>hostile&.pipe", page.text)
        for name in HOSTILE:
            self.assertIn(name, page.text)

    def testOneStageAndMany(self):
        model = self.model(Deep(64), "deep.pt")
        for stages in (1, 13, 64):
            with self.subTest(stages=stages):
                self.compiled(model, f"deep{stages}.pipe", *INPUTS, "--stages", stages)
                self.page(f"deep{stages}.pipe")

    def testManyMicroBatches(self):
        """Of very many only the first are drawn, and the page says so."""
        self.compiled(self.model(Deep(4), "many.pt"), "many.pipe", *INPUTS, "--stages", 2, "--microbatches", 30000)
        self.pipec(0, "pipe-inspect", "many.pipe", "--html", "many.html", "--force")
        text = Path("many.html").read_text()
        self.assertIn("Shown are the first 10000 of 30000.", text)
        self.assertLess(len(text), 12 << 20)

    def testArtifactsOfOldVersions(self):
        for folder in sorted((e2e.SOURCE / "tests" / "artifacts").glob("*/model.pipe")):
            with self.subTest(artifact=folder):
                self.page(folder)

    def testSameBytes(self):
        self.compiled(e2e.MODELS / "mlp.pt", "same.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 3)
        self.page("same.pipe", name="first.html")
        Path("elsewhere").mkdir(exist_ok=True)
        shutil.rmtree("elsewhere/same.pipe", ignore_errors=True)
        shutil.copytree("same.pipe", "elsewhere/same.pipe")
        self.pipec(0, "pipe-inspect", "elsewhere/same.pipe/", "--html", "second.html", "--force", env={"LC_ALL": "C", "TZ": "Asia/Tokyo"})
        self.assertEqual(Path("first.html").read_bytes(), Path("second.html").read_bytes())

    def testNothingIsOverwritten(self):
        self.compiled(e2e.MODELS / "mlp.pt", "keep.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2)
        Path("mine.html").write_text("mine")
        self.refused(USAGE, ["--html: expected a new file, got mine.html, which exists", "pass --force to replace it"], "pipe-inspect", "keep.pipe", "--html", "mine.html")
        before = e2e.files("keep.pipe")
        for name in ("plan.json", "page.html"):
            self.refused(USAGE, [f"--html: keep.pipe/{name} is inside an artifact", "choose a path outside the artifact"],
                         "pipe-inspect", "keep.pipe", "--html", f"keep.pipe/{name}", "--force")
        self.assertEqual(e2e.files("keep.pipe"), before)
        self.assertEqual(Path("mine.html").read_text(), "mine")
        self.refused(IO, "--html: cannot write no/such.html: no such file or directory", "pipe-inspect", "keep.pipe", "--html", "no/such.html")
        document = json.loads(self.pipec(0, "pipe-inspect", "keep.pipe", "--html", "mine.html", "--force", "--json").out)
        self.assertEqual(len(document["stages"]), 2)

    def testOnlyOfArtifacts(self):
        self.refused(USAGE, ["--html: expected an artifact, got a TorchScript file", "compile it first"], "pipe-inspect", e2e.MODELS / "mlp.pt",
                     "--html", "never.html")
        self.compiled(e2e.MODELS / "mlp.pt", "bad.pipe", "--inputs", e2e.MODELS / "mlp.inputs.pt", "--stages", 2)
        with open("bad.pipe/stage-1.pt", "ab") as file:
            file.write(b"x")
        self.refused(DAMAGED, "stage-1.pt", "pipe-inspect", "bad.pipe", "--html", "never.html")
        self.assertFalse(Path("never.html").exists())


if __name__ == "__main__":
    e2e.main()

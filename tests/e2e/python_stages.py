"""python_stages.py MODEL...: plain PyTorch runs the stage files by hand, by the plan alone, and gets the model's bits.

The function that runs them is the one printed in docs/artifact.md. Checked with it: the names of the weights, and both ways to keep
weights that several stages use.
"""
import torch

import e2e
import odd_models

STAGES = 4


class PythonStages(e2e.Case):
    def test(self):
        run = e2e.documented("artifact.md", "run")["run"]
        for name in e2e.NAMES:
            model = torch.jit.load(e2e.MODELS / f"{name}.pt")
            inputs = torch.load(e2e.MODELS / f"{name}.inputs.pt")
            expected, = e2e.reference(model, inputs, 1)
            for mode in ("transmit", "replicate"):
                with self.subTest(model=name, tied=mode):
                    target = f"{name}-{mode}.pipe"
                    plan = self.compiled(e2e.MODELS / f"{name}.pt", target, "--stages", STAGES, "--tied", mode,
                                         "--inputs", e2e.MODELS / f"{name}.inputs.pt")
                    with torch.no_grad(), torch.jit.optimized_execution(False):
                        self.sameBits(expected, run(target, *inputs), f"{target} run by hand")
                    self.namesAreTheModels(model, target, plan)
                    self.tiesAreKept(target, plan, mode)
                if not plan["ties"]:
                    break  # nothing is shared: the other mode would be the same artifact

    def namesAreTheModels(self, model, target, plan):
        """Every weight of a stage file is the model's of that name, and every parameter of the model is in some stage."""
        source = model.state_dict()
        found = {}
        for stage in plan["stages"]:
            loaded = torch.jit.load(f"{target}/{stage['file']}").state_dict()
            for key, value in loaded.items():
                self.assertIn(key, source, f"{stage['file']} has a weight that the model does not have")
                self.sameBits(source[key], value, f"{stage['file']}: {key}")
            found.update(loaded)
        for tie in plan["ties"]:  # one tensor with several names: held under one of them, known under all
            for name in tie["names"]:
                self.sameBits(source[name], source[tie["names"][0]], f"tie {name}")
            self.assertTrue(set(tie["names"]) & set(found), f"no stage holds {tie['names']}")
            found.update(dict.fromkeys(tie["names"]))
        for stage in plan["stages"]:
            for attribute in stage["attributes"]:
                found.update(dict.fromkeys(attribute["other_names"]))
        missing = [key for key, _ in model.named_parameters() if key not in found]
        self.assertEqual(missing, [], "parameters that no stage holds")

    def tiesAreKept(self, target, plan, mode):
        for tie in plan["ties"]:
            self.assertEqual(tie["mode"], mode)
            self.assertGreaterEqual(len(tie["stages"]), 2)
            holders = [s for s in tie["stages"]
                       if set(tie["names"]) & set(torch.jit.load(f"{target}/stage-{s}.pt").state_dict())]
            self.assertEqual(holders, [tie["owner"]] if mode == "transmit" else tie["stages"], f"who holds {tie['names']}")
        sent = [channel for channel in plan["channels"] if channel["kind"] == "weight"]
        self.assertEqual(len(sent), len(plan["ties"]) if mode == "transmit" else 0)
        for channel in sent:  # the runtime sends it once; by hand it is an extra result of the owner's forward
            index = plan["channels"].index(channel)
            self.assertIn(index, plan["stages"][channel["from"]["stage"]]["weight_channels_out"])
            for port in channel["to"]:
                self.assertEqual(plan["stages"][port["stage"]]["attributes"][port["port"]]["channel"], index)


class Defaults(e2e.Case):
    """Arguments that are not given take the model's defaults, of every kind that has one."""

    def test(self):
        run = e2e.documented("artifact.md", "run")["run"]
        torch.manual_seed(7)
        torch.jit.script(odd_models.Defaults().eval()).save("defaults.pt")
        model, x = torch.jit.load("defaults.pt"), torch.randn(4, 16)
        self.compiled("defaults.pt", "defaults.pipe", "--at", "b")
        with torch.no_grad(), torch.jit.optimized_execution(False):
            self.sameBits(model(x), run("defaults.pipe", x))
            self.sameBits(model(x, 0.3, word="minus"), run("defaults.pipe", x, 0.3, word="minus"))
            self.assertRaisesRegex(TypeError, "argument x: expected a value", run, "defaults.pipe")


class ModelsWithTies(e2e.Case):
    """The models of this test that tie weights do have ties in their plans: else the above would check nothing."""

    def test(self):
        for name in set(e2e.NAMES) & {"gpt2", "bert", "t5"}:
            self.assertTrue(e2e.plan(f"{name}-transmit.pipe")["ties"], name)

    def setUp(self):
        for name in set(e2e.NAMES) & {"gpt2", "bert", "t5"}:
            if not e2e.Path(f"{name}-transmit.pipe").exists():
                self.compiled(e2e.MODELS / f"{name}.pt", f"{name}-transmit.pipe", "--stages", STAGES, "--tied", "transmit",
                              "--inputs", e2e.MODELS / f"{name}.inputs.pt")


if __name__ == "__main__":
    e2e.main()

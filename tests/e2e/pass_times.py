"""--timing: the time of each pass, in the same words from pipe-compile and pipe-opt."""
import json
import re

import e2e

MODEL = e2e.MODELS / "mlp.pt"
LINE = re.compile(r" *(\d+\.\d{3}) ms  (\d+) runs, (\d+) changed  ([a-z-]+)")


class PassTimes(e2e.Case):
    def rows(self, *command):
        lines = self.pipec(0, *command).err.splitlines()
        return {row[4]: (int(row[2]), int(row[3])) for row in map(LINE.fullmatch, lines) if row}

    def compile(self, *more):
        return ["pipe-compile", MODEL, "--at", "layers.8", "-o", "mlp.pipe", "--force", *more]

    def testACompileNamesItsPasses(self):
        self.assertEqual(self.rows(*self.compile()), {})
        rows = self.rows(*self.compile("--timing"))
        for name in ("inline", "lower-attributes", "choose-cuts", "insert-transfers"):
            self.assertIn(name, rows)
            self.assertGreaterEqual(rows[name][0], 1)
            self.assertLessEqual(rows[name][1], rows[name][0])

    def testTheDocumentHasTheSameRows(self):
        rows = self.rows(*self.compile("--timing"))
        result = self.pipec(0, *self.compile("--timing", "--json"))
        document = json.loads(result.out)
        self.assertEqual({row["name"]: (row["runs"], row["changed"]) for row in document["passes"]}, rows)
        self.assertTrue(all(row["ms"] >= 0 for row in document["passes"]), document["passes"])
        self.assertNotRegex(result.err, LINE)
        self.assertNotIn("passes", json.loads(self.pipec(0, *self.compile("--json")).out))

    def testPipeOptSaysItAlike(self):
        rows = self.rows("pipe-opt", MODEL, "--passes", "inline,lower-attributes", "--timing")
        self.assertEqual(rows, {"inline": (1, 1), "lower-attributes": (1, 1)})


if __name__ == "__main__":
    e2e.main()

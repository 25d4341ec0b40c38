// What changed between two plans, in words: one edit, one kind of finding.
#include "ir/artifact/PlanDifferences.h"

#include "llvm/ADT/STLExtras.h"
#include "tests/support/Matchers.h"
#include "tests/support/SamplePlan.h"

#include <gmock/gmock.h>

namespace pipec {
namespace {

std::vector<Finding> differences(const Plan &old, const Plan &now) {
  std::vector<Finding> findings;
  comparePlans(old, now, findings);
  return findings;
}

TEST(PlanDifferences, NoneBetweenEqualPlans) {
  EXPECT_TRUE(differences(richPlan(), richPlan()).empty());
  Plan other = richPlan();
  other.toolVersion = "9.9.9";
  EXPECT_TRUE(differences(richPlan(), other).empty());
}

TEST(PlanDifferences, NamesEachChange) {
  struct Case {
    const char *code, *message;
    void (*edit)(Plan &);
  };
  const Case cases[] = {
      {"source", "the source: sha256:b", [](Plan &p) { p.sourceDigest[7] = 'b'; }},
      {"method", "the method: step, before forward", [](Plan &p) { p.signature.method = "step"; }},
      {"signature", "the arguments: y, n, scale",
       [](Plan &p) { p.signature.inputs[0].name = "y"; }},
      {"signature", "argument n: default: 2, before 1",
       [](Plan &p) { p.signature.inputs[1].defaultValue = 2; }},
      {"signature", "argument x: batch dimension: none, before 0",
       [](Plan &p) { p.signature.inputs[0].batchDim.reset(); }},
      {"signature", "the result: Other(scores: {logits: 0, more: [1, 2]}), before Result(",
       [](Plan &p) { p.signature.outputs.typeName = "Other"; }},
      {"merge-rule", "output scores.logits: merge rule: list, before concat along 1",
       [](Plan &p) { p.signature.leaves[0].merge = {}; }},
      {"option", "micro-batches: 9, before 4", [](Plan &p) { p.microBatches = 9; }},
      {"option", "training flags: saved, before false",
       [](Plan &p) { p.normalisation.training.reset(); }},
      {"option", "modules kept in eval mode: none, before encoder.norm",
       [](Plan &p) { p.normalisation.keepEval.clear(); }},
      {"obligation", "obligation \"recompute aten::size 1 times in stage 1\": gone",
       [](Plan &p) { p.obligations.clear(); }},
      {"stages", "stage 0: operators: 77, before", [](Plan &p) { p.stages[0].nodes = 77; }},
  };
  for (const Case &c : cases) {
    Plan now = richPlan();
    c.edit(now);
    std::vector<Finding> found = differences(richPlan(), now);
    ASSERT_FALSE(found.empty()) << c.message;
    EXPECT_EQ(found[0].code, c.code);
    EXPECT_THAT(found[0].message, testing::HasSubstr(c.message));
    EXPECT_EQ(found[0].exitCode, ExitCode::Mismatch);
  }
}

/// encoder.0 and encoder.1 with one weight each, in the given stages.
Plan twoLayers(size_t first, size_t second) {
  Plan plan;
  plan.stages.resize(3);
  for (size_t layer : {0, 1}) {
    StageAttribute weight;
    weight.name = "encoder." + std::to_string(layer) + ".fc.weight";
    plan.stages[layer ? second : first].attributes.push_back(weight);
  }
  return plan;
}

TEST(PlanDifferences, ModulesThatMovedAreNamedByTheOutermostThatMovedAlike) {
  auto moved = [](const Plan &old, const Plan &now) {
    std::vector<std::string> texts;
    for (const Finding &finding : differences(old, now))
      if (finding.code == "module-moved")
        texts.push_back(finding.message);
    return texts;
  };
  EXPECT_THAT(moved(twoLayers(0, 0), twoLayers(1, 1)),
              testing::ElementsAre("encoder moved from stage 0 to stage 1"));
  EXPECT_THAT(moved(twoLayers(0, 0), twoLayers(0, 2)),
              testing::ElementsAre("encoder.1 moved from stage 0 to stage 2"));
  EXPECT_THAT(moved(twoLayers(0, 1), twoLayers(1, 2)),
              testing::ElementsAre("encoder.0 moved from stage 0 to stage 1",
                                   "encoder.1 moved from stage 1 to stage 2"));
}

} // namespace
} // namespace pipec

// Whether some arguments affect what a model computes from the others.
#include "ir/batch/discovery/Interaction.h"

#include "ir/batch/MicroBatch.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

namespace pipec {
namespace {

constexpr int64_t kSamples = 5;

/// A way that cuts both arguments, or one of them.
CutWay way(const Values &values, bool first, bool second) {
  CutWay made;
  made.signature.leaves.resize(1);
  made.signature.leaves[0].merge = {MergeRule::Kind::Mean};
  made.trial.candidate.dims = {first ? ArgumentCut(int64_t(0)) : ArgumentCut(),
                               second ? ArgumentCut(int64_t(0)) : ArgumentCut()};
  made.trial.example.calls = made.trial.whole.calls = {values};
  return made;
}

/// What affectOthers() finds of a loss of x and y, where only the fuller way cuts one of them.
struct Affected {
  std::optional<bool> byFirst, bySecond;
};

Affected affectedIn(llvm::function_ref<at::Tensor(const at::Tensor &, const at::Tensor &)> loss) {
  at::manual_seed(0);
  const Values values = {at::randn({kSamples, 4}), at::randn({kSamples, 4})};
  const CutWay both = way(values, true, true);
  const auto runAll = [&](std::vector<std::vector<Values>> experiments, const RunRules &) {
    std::vector<llvm::Expected<std::vector<c10::IValue>>> results;
    for (const std::vector<Values> &calls : experiments)
      results.push_back(
          std::vector<c10::IValue>{loss(calls.back()[0].toTensor(), calls.back()[1].toTensor())});
    return results;
  };
  return {affectOthers(both, way(values, false, true), runAll),
          affectOthers(both, way(values, true, false), runAll)};
}

TEST(Interaction, AWayThatCutsMoreHasAllCutsOfTheOther) {
  const Values values = {at::randn({kSamples, 4}), at::randn({kSamples, 4})};
  EXPECT_TRUE(cutsMore(way(values, true, true), way(values, true, false)));
  EXPECT_FALSE(cutsMore(way(values, true, false), way(values, true, true)));
  EXPECT_FALSE(cutsMore(way(values, true, false), way(values, false, true)));
}

TEST(Interaction, ATableAffectsWhatIsComputedOfTheSamples) {
  const Affected found = affectedIn([](const at::Tensor &x, const at::Tensor &table) {
    return x.matmul(table.t()).square().mean();
  });
  EXPECT_EQ(found.byFirst, std::optional(true));
  EXPECT_EQ(found.bySecond, std::optional(true));
}

TEST(Interaction, TermsOfASumDoNotAffectEachOther) {
  const Affected found = affectedIn([](const at::Tensor &x, const at::Tensor &y) {
    return x.square().mean().add(y.square().mean());
  });
  EXPECT_EQ(found.byFirst, std::optional(false));
  EXPECT_EQ(found.bySecond, std::optional(false));
}

/// So a way that cuts such an argument alone loses to the one that cuts both.
TEST(Interaction, NothingAffectsWhatNoResultFollows) {
  const Affected found =
      affectedIn([](const at::Tensor &x, const at::Tensor &) { return x.square().mean(); });
  EXPECT_EQ(found.byFirst, std::optional(false)); // the other way cuts y alone
  EXPECT_EQ(found.bySecond, std::nullopt);        // no run shows anything of y
}

} // namespace
} // namespace pipec

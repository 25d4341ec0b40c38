// legalise-cuts: refuses boundaries at illegal places, or moves them to legal ones, as little as
// possible.
#include "passes/LegaliseCuts.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "passes/Passes.h"
#include "passes/analysis/CutLegality.h"
#include "passes/analysis/ModuleNames.h"

#include <fmt/format.h>

#include <limits>

namespace pipec {

namespace {

class LegaliseCuts : public ModelPass {
public:
  explicit LegaliseCuts(const LegaliseCutsOptions &options) : mayMove_(options.nearest) {}

  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    TopLevel top = topLevelOf(model);
    if (top.boundaries.empty())
      return false;
    CutLegality legality(model, top);
    std::vector<size_t> legal = legality.all();
    TRY(legality.enoughFor(top.boundaries.size()));
    std::vector<size_t> moved = nearest(legal, top.boundaries);
    for (size_t i = 0; i < moved.size(); ++i) {
      const std::string what = describeRequest(context, top, i),
                        why = legality.why(top.boundaries[i]);
      if (!mayMove_ && !why.empty())
        return refuseWith(Refusal::CutNotPossible, what, why, placeBefore(top, moved[i]));
      if (moved[i] == top.boundaries[i])
        continue;
      context.warnings.push_back(fmt::format("{} is not possible: {}; cut before {} instead", what,
                                             why.empty() ? "another cut must move there" : why,
                                             placeBefore(top, moved[i])));
    }
    if (moved == top.boundaries)
      return false;
    removeBoundaries(model);
    for (size_t boundary : moved)
      insertBoundary(top.operators[boundary]);
    return true;
  }

private:
  /// A separate place for each boundary, in the same order, with the least sum of distances; of
  /// equal solutions the earliest.
  static std::vector<size_t> nearest(const std::vector<size_t> &legal,
                                     const std::vector<size_t> &wanted) {
    PIPEC_ASSERT(legal.size() >= wanted.size(), "enoughFor has refused fewer places");
    constexpr size_t kNever = std::numeric_limits<size_t>::max();
    // least[j]: the sum for the boundaries so far, within the first j places.
    std::vector<size_t> least(legal.size() + 1, 0);
    std::vector<std::vector<bool>> taken(wanted.size(), std::vector<bool>(legal.size(), false));
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::vector<size_t> next(legal.size() + 1, kNever);
      for (size_t j = 0; j < legal.size(); ++j) {
        size_t distance = std::max(legal[j], wanted[i]) - std::min(legal[j], wanted[i]);
        size_t with = least[j] == kNever ? kNever : least[j] + distance;
        taken[i][j] = with < next[j];
        next[j + 1] = std::min(next[j], with);
      }
      least = std::move(next);
    }
    std::vector<size_t> places(wanted.size());
    size_t j = legal.size();
    for (size_t i = wanted.size(); i-- > 0;) {
      do
        --j;
      while (!taken[i][j]);
      places[i] = legal[j];
    }
    return places;
  }

  static std::string describeRequest(const PassContext &context, const TopLevel &top, size_t cut) {
    if (context.askedBy.size() == top.boundaries.size())
      return context.askedBy[cut];
    if (top.boundaries[cut] >= top.operators.size())
      return "a cut at the end";
    return "a cut before " + describeNode(top.operators[top.boundaries[cut]]);
  }

  bool mayMove_;
};

} // namespace

OptionFields<LegaliseCutsOptions> LegaliseCutsOptions::fields() {
  return {choiceOption<LegaliseCutsOptions, bool>(
      "place=exact|nearest",
      "nearest moves a boundary that is not possible; exact, the default, refuses it",
      &LegaliseCutsOptions::nearest, {{"exact", false}, {"nearest", true}})};
}

PassInfo legaliseCuts() {
  return {.name = "legalise-cuts",
          .description = "refuses boundaries that separate a write or state, or a value that "
                         "cannot be sent between stages, or moves them as little as possible",
          .requires_ = "boundaries are pipec::cut() at top level",
          .guarantees = "cutting at the boundaries changes nothing that the model computes",
          .example = R"(
    %h : Tensor = aten::linear(%x, %w, %b)
    pipec::cut()
    %r : Tensor = aten::relu_(%h)
    => legalise-cuts{place=nearest}
    %h : Tensor = aten::linear(%x, %w, %b)
    %r : Tensor = aten::relu_(%h)
    pipec::cut())",
          .options = optionsOf<LegaliseCutsOptions>(),
          .make = withOptions<LegaliseCuts, LegaliseCutsOptions>()};
}

} // namespace pipec

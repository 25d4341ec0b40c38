// legalise-cuts: moves boundaries, as little as possible, to places where nothing is torn apart.
#include "ir/NodeInfo.h"
#include "passes/Passes.h"
#include "passes/analysis/CutLegality.h"

#include <fmt/format.h>

#include <limits>

namespace pipec {

namespace {

class LegaliseCuts : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model) override {
    TopLevel top = topLevelOf(model);
    if (top.boundaries.empty())
      return false;
    CutLegality legality(model, top);
    std::vector<size_t> legal = legality.all();
    if (llvm::Error error = legality.enoughFor(top.boundaries.size()))
      return std::move(error);
    std::vector<size_t> moved = nearest(legal, top.boundaries);
    for (size_t i = 0; i < moved.size(); ++i)
      if (moved[i] != top.boundaries[i])
        model.notes.push_back(noteOfMove(i, top, moved[i], legality));
    if (moved == top.boundaries)
      return false;
    removeBoundaries(model);
    for (size_t boundary : moved)
      insertBoundary(top.operators[boundary]);
    return true;
  }

private:
  /// A place of its own for each boundary, in the same order, so that the sum of the distances is
  /// the least; of equal ones the earliest. At least as many places as boundaries are needed.
  static std::vector<size_t> nearest(const std::vector<size_t> &legal,
                                     const std::vector<size_t> &wanted) {
    constexpr size_t kNever = std::numeric_limits<size_t>::max();
    // least[j]: for the boundaries so far within the first j places.
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

  static std::string noteOfMove(size_t cut, const TopLevel &top, size_t place,
                                const CutLegality &legality) {
    std::string why = legality.why(top.boundaries[cut]);
    return fmt::format("cut {} moved from before {} to before {}: {}", cut + 1,
                       describeNode(top.operators[top.boundaries[cut]]),
                       describeNode(top.operators[place]),
                       why.empty() ? "another cut had to move there" : why);
  }
};

} // namespace

PassInfo legaliseCuts() {
  return {.name = "legalise-cuts",
          .description = "moves the boundaries, as little as possible, to places that separate no "
                         "write, state or value that cannot travel",
          .requires_ = "boundaries are pipec::cut() at top level",
          .guarantees = "cutting at the boundaries changes nothing that the model computes",
          .example = R"(
    %h : Tensor = aten::linear(%x, %w, %b)
    pipec::cut()
    %r : Tensor = aten::relu_(%h)
    =>
    %h : Tensor = aten::linear(%x, %w, %b)
    %r : Tensor = aten::relu_(%h)
    pipec::cut())",
          .options = "",
          .make = withoutOptions<LegaliseCuts>()};
}

} // namespace pipec

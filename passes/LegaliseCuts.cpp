// legalise-cuts: moves each boundary to the nearest place where nothing is torn apart.
#include "ir/NodeInfo.h"
#include "passes/Passes.h"
#include "passes/analysis/CutLegality.h"

#include <fmt/format.h>

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
    if (legal.size() < top.boundaries.size())
      return makeError(
          ExitCode::NoPlan,
          fmt::format(
              "stages: {} wanted, but the model has only {} places to cut: at most {} stages",
              top.boundaries.size() + 1, legal.size(), legal.size() + 1),
          fmt::format("use {} cuts or fewer", legal.size()));
    std::vector<size_t> moved;
    for (size_t i = 0; i < top.boundaries.size(); ++i) {
      std::optional<size_t> place = nearest(legal, top.boundaries, moved, i);
      if (!place)
        return makeError(
            ExitCode::Unsupported,
            fmt::format("cut {} before {}: {}, and no place is left between its neighbours", i + 1,
                        describeNode(top.operators[top.boundaries[i]]),
                        legality.why(top.boundaries[i])),
            "move this cut or leave it out");
      if (*place != top.boundaries[i])
        model.notes.push_back(fmt::format("cut {} moved from before {} to before {}: {}", i + 1,
                                          describeNode(top.operators[top.boundaries[i]]),
                                          describeNode(top.operators[*place]),
                                          legality.why(top.boundaries[i])));
      moved.push_back(*place);
    }
    if (moved == top.boundaries)
      return false;
    removeBoundaries(model);
    for (size_t boundary : moved)
      insertBoundary(top.operators[boundary]);
    return true;
  }

private:
  /// After the previous boundary as moved, before the next one as asked for; the earlier of two
  /// equally near.
  static std::optional<size_t> nearest(const std::vector<size_t> &legal,
                                       const std::vector<size_t> &wanted,
                                       const std::vector<size_t> &moved, size_t i) {
    std::optional<size_t> best;
    size_t distance = 0;
    for (size_t place : legal) {
      if (!moved.empty() && place <= moved.back())
        continue;
      if (i + 1 < wanted.size() && place >= wanted[i + 1])
        break;
      size_t d = place > wanted[i] ? place - wanted[i] : wanted[i] - place;
      if (!best || d < distance) {
        best = place;
        distance = d;
      }
    }
    return best;
  }
};

} // namespace

PassInfo legaliseCuts() {
  return {.name = "legalise-cuts",
          .description = "moves each boundary to the nearest place that separates no write, state "
                         "or value that cannot travel",
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

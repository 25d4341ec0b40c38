#include "compiler/EvaluationCuts.h"

#include "ir/NodeInfo.h"
#include "ir/WholeNumbers.h"
#include "passes/analysis/CutLegality.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

/// Names operators by kind, module and number among the operators of this kind and module. An
/// operator has the same name in both modes if its module runs the same operators of this kind in
/// both.
class OperatorNames {
public:
  std::string next(torch::jit::Node *node) {
    const std::string name =
        std::string(node->kind().toQualString()) + " in " + modulePathOf(node) + " #";
    return name + std::to_string(++numbers_[name]);
  }

private:
  std::map<std::string, size_t> numbers_;
};

std::map<std::string, size_t> placesOf(const TopLevel &top) {
  std::map<std::string, size_t> places;
  OperatorNames names;
  for (size_t i = 0; i < top.operators.size(); ++i)
    places[names.next(top.operators[i])] = i;
  return places;
}

size_t nearest(const std::vector<size_t> &legal, size_t place) {
  const auto above = llvm::lower_bound(legal, place);
  if (above == legal.begin())
    return *above;
  const size_t below = *std::prev(above);
  return above == legal.end() || place - below <= *above - place ? below : *above;
}

} // namespace

EvaluationCuts cutsLike(const StagedModel &training, const Model &evaluation) {
  const TopLevel top = topLevelOf(evaluation);
  const std::vector<size_t> legal = CutLegality(evaluation, top).all();
  const std::map<std::string, size_t> places = placesOf(top);
  OperatorNames names;
  std::map<size_t, size_t> stageAt; // by place
  for (size_t s = 0; s < training.stages.size(); ++s) {
    std::optional<size_t> first;
    for (torch::jit::Node *node : training.stages[s].graph->nodes()) {
      // A later stage may repeat arithmetic of whole numbers.
      if (node->kind() == c10::prim::Constant || isWholeNumberOp(node))
        continue;
      const auto place = places.find(names.next(node));
      if (!first && place != places.end())
        first = place->second;
    }
    if (s > 0 && first && !legal.empty())
      stageAt.try_emplace(nearest(legal, *first), s);
  }
  EvaluationCuts found;
  found.stageOf.push_back(0);
  for (const auto &[place, stage] : stageAt) {
    found.cuts.places.push_back(place);
    found.stageOf.push_back(stage);
  }
  return found;
}

} // namespace pipec

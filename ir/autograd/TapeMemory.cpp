#include "ir/autograd/TapeMemory.h"

namespace pipec {

TapeLists *TapeMemory::takeLists() {
  if (lists_.empty()) {
    lists_.reserve(++tapes_); // giveBack() then has room
    return new TapeLists;
  }
  TapeLists *const lists = lists_.back().release();
  lists_.pop_back();
  return lists;
}

void TapeMemory::giveBack(TapeLists *lists) {
  lists_.emplace_back(lists);
  lists->outputs.clear();
  lists->split.clear();
  lists->hasSplit = false;
  lists->made.clear(); // the graph goes
  for (GradLeaf &leaf : lists->leaves)
    if (leaf.isAlias)
      leaf.edge = torch::autograd::Edge();
  for (GradLeaf &leaf : lists->leaves)
    nodes.giveBack(std::move(leaf.edge.function));
  lists->leaves.clear();
  lists->inputs.clear();
}

std::vector<ValueGradients> TapeMemory::takeGradients(size_t size) {
  std::vector<ValueGradients> gradients;
  if (!gradients_.empty()) {
    gradients = std::move(gradients_.back());
    gradients_.pop_back();
  }
  gradients.resize(size);
  return gradients;
}

void TapeMemory::giveBack(std::vector<ValueGradients> gradients) {
  for (ValueGradients &each : gradients)
    each.clear();
  gradients_.push_back(std::move(gradients));
}

} // namespace pipec

#include "passes/inplace/MemoryReaders.h"

#include "ir/Model.h"
#include "ir/support/Check.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

namespace pipec {

MemoryReaders::MemoryReaders(const Model &model, const AliasAnalysis &alias) : alias_(alias) {
  size_t next = 0;
  number(model.graph->block(), next);
  const size_t memories = alias.memories().size();
  heldBy_.assign(memories, {});
  for (size_t i = 0; i < memories; ++i)
    for (size_t held : alias.memories()[i].holds)
      heldBy_[held].push_back(i);
  holders_.assign(memories, std::nullopt);
  unknown_.assign(memories, {});
}

void MemoryReaders::placeAs(const torch::jit::Node *made, const torch::jit::Node *old) {
  order_[made] = orderOf(old);
}

void MemoryReaders::note(size_t memory, const torch::jit::Value *value) {
  unknown_[memory].push_back(lifeOf(value));
}

bool MemoryReaders::see(size_t memory, const torch::jit::Node *maker,
                        const torch::jit::Node *writer) {
  const size_t made = orderOf(maker), written = orderOf(writer);
  const std::vector<Life> &unknown = unknown_[memory];
  // In order of definition. Values older than the tensor are other memory of the class. Values made
  // after the write are made of the written tensor.
  auto first = llvm::partition_point(unknown, [&](const Life &life) { return life.made <= made; });
  auto last = std::partition_point(first, unknown.end(),
                                   [&](const Life &life) { return life.made < written; });
  return std::any_of(first, last, [&](const Life &life) { return life.used > written; }) ||
         llvm::any_of(holdersOf(memory),
                      [&](const Life &life) { return life.made < written && life.used > written; });
}

void MemoryReaders::number(torch::jit::Block *block, size_t &next) {
  order_[block->param_node()] = next++;
  for (torch::jit::Node *node : block->nodes()) {
    for (torch::jit::Block *inner : node->blocks())
      number(inner, next);
    order_[node] = next++;
  }
  order_[block->return_node()] = next++;
}

size_t MemoryReaders::orderOf(const torch::jit::Node *node) const {
  auto found = order_.find(node);
  PIPEC_ASSERT(found != order_.end(),
               "every node is numbered, and new ones take the number of the old");
  return found->second;
}

MemoryReaders::Life MemoryReaders::lifeOf(const torch::jit::Value *value) const {
  Life life{orderOf(value->node()), 0};
  for (const torch::jit::Use &use : value->uses()) {
    life.used = std::max(life.used, orderOf(use.user));
    for (const torch::jit::Node *outer = use.user->owningBlock()->owningNode();
         outer && !isInside(value->node(), outer); outer = outer->owningBlock()->owningNode())
      if (outer->kind() == c10::prim::Loop)
        life.used = std::max(life.used, orderOf(outer));
  }
  return life;
}

llvm::ArrayRef<MemoryReaders::Life> MemoryReaders::holdersOf(size_t memory) {
  std::optional<std::vector<Life>> &known = holders_[memory];
  if (known)
    return *known;
  known.emplace();
  std::vector<size_t> work = heldBy_[memory];
  llvm::DenseSet<size_t> done;
  while (!work.empty()) {
    const size_t holder = work.back();
    work.pop_back();
    if (!done.insert(holder).second)
      continue;
    const AliasAnalysis::Memory &container = alias_.memories()[holder];
    if (container.attribute || container.userInput)
      known->push_back({0, ~size_t(0)});
    for (const torch::jit::Value *value : container.values)
      known->push_back(lifeOf(value));
    work.insert(work.end(), heldBy_[holder].begin(), heldBy_[holder].end());
  }
  return *known;
}

} // namespace pipec

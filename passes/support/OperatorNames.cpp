#include "passes/support/OperatorNames.h"

#include "ir/NodeInfo.h"
#include "ir/NodeOrigin.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/ir.h>

#include <array>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

} // namespace

TypeQuestion OperatorNames::question(Node *node, const std::string &property) {
  return {nameWithOrigin(node), copyOf(node), property};
}

TypeQuestion OperatorNames::question(const Value *value, const std::string &property) {
  auto *node = const_cast<Node *>(value->node());
  const char *what = "result";
  if (node->kind() == c10::prim::Param && node->owningBlock()->owningNode()) {
    node = node->owningBlock()->owningNode();
    what = "argument";
  }
  return {fmt::format("{} {} of {}", what, value->offset(), nameWithOrigin(node)), copyOf(node),
          property};
}

size_t OperatorNames::copyOf(const Node *node) {
  if (!found_)
    findCopies();
  auto found = node->outputs().empty() ? copies_.end() : copies_.find(node->output(0)->unique());
  return found == copies_.end() ? 0 : found->second;
}

/// Called before the first name is requested: operators that are made later count as first copies.
void OperatorNames::findCopies() {
  using Key = std::array<c10::unique_t, 3>; // operator, origin, module
  found_ = true;
  std::map<Key, size_t> counts;
  (void)anyNodeInside(graph_.block(), [&](Node *node) {
    if (node->outputs().empty() || node->kind() == c10::prim::Constant)
      return false;
    const torch::jit::ScopePtr scope = node->scope();
    const Key key{node->kind(), scope ? scope->name() : c10::Symbol(),
                  scope && !scope->isRoot() ? scope->parent()->name() : c10::Symbol()};
    if (size_t copy = counts[key]++)
      copies_.try_emplace(node->output(0)->unique(), copy);
    return false;
  });
}

} // namespace pipec

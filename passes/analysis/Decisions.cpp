#include "passes/analysis/Decisions.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/MemoryTypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <torch/csrc/jit/ir/ir.h>

#include <set>
#include <unordered_set>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The arguments that values come from.
class Sources {
public:
  explicit Sources(const Model &model) : model_(model) {}

  /// Returns false if something else than arguments and constants is among the sources.
  bool add(const Value *value) {
    if (!seen_.insert(value).second)
      return true;
    const Node *node = value->node();
    if (node->kind() == c10::prim::Constant)
      return true;
    if (node->kind() == c10::prim::Param)
      return !mayHoldTensor(*value->type()) && !holdsMutable(*value->type()) && addArgument(value);
    if (node->isNondeterministic() || node->hasSideEffects() || node->inputs().empty())
      return false;
    if (comparesWithNone(node))
      return addArgument(node->input(0));
    return llvm::all_of(node->inputs(), [&](const Value *input) { return add(input); }) &&
           llvm::all_of(node->blocks(), [&](const torch::jit::Block *block) {
             return llvm::all_of(block->outputs(),
                                 [&](const Value *output) { return add(output); });
           });
  }

  /// In the order of the signature.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (size_t index : arguments_)
      names.push_back(model_.signature.inputs[index].name);
    return names;
  }

private:
  /// The model may have changed it before the decision.
  static bool holdsMutable(const c10::Type &type) {
    return type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::DictType ||
           llvm::any_of(type.containedTypes(),
                        [](const c10::TypePtr &part) { return holdsMutable(*part); });
  }

  static bool comparesWithNone(const Node *node) {
    return (node->kind() == c10::aten::__is__ || node->kind() == c10::aten::__isnot__) &&
           node->input(0)->node()->kind() == c10::prim::Param && node->input(1)->mustBeNone();
  }

  bool addArgument(const Value *value) {
    if (value->node() != model_.graph->param_node() || value->offset() >= model_.argumentCount())
      return false;
    arguments_.insert(value->offset());
    return true;
  }

  const Model &model_;
  std::set<size_t> arguments_;
  std::unordered_set<const Value *> seen_; // looked up only
};

/// The values that decide which blocks run, or how often.
std::vector<const Value *> decisionsOf(const Node *node) {
  if (node->kind() == c10::prim::If)
    return {node->input(0)};
  if (node->kind() == c10::prim::Loop)
    return {node->input(0), node->input(1), node->blocks()[0]->outputs()[0]};
  return {};
}

} // namespace

std::string decidedBy(const Model &model, const Node *node) {
  Sources sources(model);
  const bool onlyArguments =
      llvm::all_of(decisionsOf(node), [&](const Value *value) { return sources.add(value); });
  const std::vector<std::string> names = sources.names();
  if (!onlyArguments || names.empty())
    return "data";
  return fmt::format("argument{} {}", names.size() > 1 ? "s" : "", fmt::join(names, " and "));
}

} // namespace pipec

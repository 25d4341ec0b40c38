// functionalise-containers: if control flow, or a change with an unknown effect, alters a list or
// dict, the container is copied just before, and later readers read the copy. A list to which
// branches between the layers append thus becomes a sequence of values, and a cut may stand
// anywhere between them.
//
//   %l = ListConstruct(%a)           %l = ListConstruct(%a)
//   %y = linear(%a, ...)             %y = linear(%a, ...)
//   If(%c)                     =>    %m = ListConstruct(%a)      (later: aten::copy of the last
//   one)
//     append(%l, %y)                 If(%c)
//   %z = cat(%l, 1)                    append(%m, %y)
//                                    %z = cat(%m, 1)
//
// A dict cannot travel between stages, so it is made and changed only when it is needed.
//
// A list argument that the model changes is copied at the beginning.
//
// The elements are not copied. Two containers with the same elements cannot be distinguished as
// long as only one name at a time refers to each.
#include "ir/NodeInfo.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/Passes.h"
#include "passes/SinkContainers.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <numeric>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

bool isPlainMaker(const Node *node) {
  return node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::DictConstruct;
}

/// The result is the first argument, a container: append and the like return it.
bool returnsItsContainer(const Node *node, const Value *result) {
  if (node->kind() == c10::aten::add_)
    return true;
  const c10::FunctionSchema *schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
  if (!schema || schema->arguments().empty() || result->offset() >= schema->returns().size())
    return false;
  const c10::AliasInfo *from = schema->arguments()[0].alias_info();
  const c10::AliasInfo *to = schema->returns()[result->offset()].alias_info();
  return from && to && from->isWrite() && !from->isWildcardBefore() &&
         from->beforeSets() == to->beforeSets();
}

/// Follows one container through the top level.
class Container {
public:
  Container(Block *top, const AliasAnalysis &alias, size_t memory, bool isHeld)
      : top_(top), alias_(alias), memory_(memory), isHeld_(isHeld) {}

  /// Returns true if it made copies.
  bool run() {
    if (!collectNames() || !collectUses() || !onePathOnly() || (isHeld_ && isKeptBeforeAChange()))
      return false;
    rewrite();
    return changed_;
  }

private:
  /// The uses of the container at one top-level node.
  struct Step {
    std::vector<Use> uses;
    std::vector<Value *> defines; // names of the top level
    bool writes = false;          // to a container from before the node
  };

  Node *topLevel(Node *node) const { return nodeIn(top_, node); }

  Step &stepAt(Node *node) {
    auto [found, isNew] = numbers_.try_emplace(node, nodes_.size());
    if (isNew) {
      nodes_.push_back(node);
      steps_.emplace_back();
    }
    return steps_[found->second];
  }

  bool collectNames() {
    for (Value *value : alias_.memories()[memory_].values) {
      const c10::TypePtr bare = withoutNone(value->type());
      if (!isListOrDict(*bare) || value->node()->kind() == c10::prim::Uninitialized)
        return false; // the value of an early exit is no container
      if (value->node()->owningBlock() != top_)
        continue;
      // All names at one time must have one type. A value that may be None is another name.
      if (!names_.empty() && *withoutNone(names_.front()->type()) != *bare)
        return false;
      names_.push_back(value);
    }
    return !names_.empty();
  }

  bool collectUses() {
    for (Value *name : names_) {
      stepAt(name->node()).defines.push_back(name);
      for (const Use &use : name->uses())
        stepAt(topLevel(use.user)).uses.push_back(use);
    }
    for (Node *writer : alias_.memories()[memory_].writers)
      if (isLate(writer))
        stepAt(topLevel(writer)).writes = true;
    order_.resize(nodes_.size());
    std::iota(order_.begin(), order_.end(), size_t(0));
    llvm::sort(order_, [this](size_t a, size_t b) {
      return nodes_[a] != nodes_[b] && nodes_[a]->isBefore(nodes_[b]);
    });
    return true;
  }

  /// Whether it writes into a container from outside the enclosing block.
  bool isLate(Node *writer) const {
    bool any = false, late = false;
    for (Value *input : writer->inputs())
      if (alias_.memoryOf(input) == memory_) {
        any = true;
        late |= !isMadeInBlock(input);
      }
    return late || !any;
  }

  /// Whether at every node at most one object is used later: a new name is the old object, or the
  /// old names are not used any more.
  bool onePathOnly() const {
    llvm::DenseSet<const Value *> live;
    for (size_t number : order_) {
      const Step &step = steps_[number];
      for (const Use &use : step.uses)
        if (!live.count(use.user->input(use.offset)))
          return false;
      if (step.defines.empty())
        continue;
      const Node *node = nodes_[number];
      const bool same = node->blocks().empty() && !step.uses.empty() &&
                        llvm::all_of(step.defines, [&](const Value *name) {
                          return live.count(node->input(0)) && returnsItsContainer(node, name);
                        });
      if (!same) {
        if (step.defines.size() != 1)
          return false;
        live.clear();
      }
      for (const Value *name : step.defines)
        live.insert(name);
    }
    return true;
  }

  /// LibTorch's own operators do not keep their first argument, and an operator that passes it on
  /// gives it another name.
  static bool keeps(const Use &use) {
    switch (use.user->kind()) {
    case c10::prim::unchecked_cast:
    case c10::prim::Loop:
    case c10::prim::Return:
    case c10::aten::__is__:
    case c10::aten::__isnot__:
      return false;
    default:
      return use.offset > 0 || !use.user->kind().is_aten();
    }
  }

  /// Whether another container keeps the object itself, and so must see every later change.
  bool isKeptBeforeAChange() const {
    const Node *last = nullptr;
    for (size_t number : order_)
      if (steps_[number].writes)
        last = nodes_[number];
    for (const Value *value : alias_.memories()[memory_].values)
      for (const Use &use : value->uses())
        if (const Node *node = topLevel(use.user);
            last && keeps(use) && (node == last || node->isBefore(last)))
          return true;
    return false;
  }

  void rewrite() {
    Value *current = nullptr;
    bool isAsMade = false;
    for (size_t number : order_) {
      const Step &step = steps_[number];
      Node *node = nodes_[number];
      if (step.writes && current && !standsRightBefore(current->node(), node)) {
        current = copyBefore(node, current, isAsMade);
        isAsMade = false;
        changed_ = true;
      }
      for (const Use &use : step.uses)
        use.user->replaceInput(use.offset, current);
      if (step.writes)
        isAsMade = false;
      for (Value *name : step.defines)
        if (!current || !returnsItsContainer(node, name) || !node->blocks().empty()) {
          current = name;
          isAsMade = isPlainMaker(node);
        }
    }
  }

  static Value *copyBefore(Node *node, Value *current, bool isAsMade) {
    torch::jit::Graph &graph = *node->owningGraph();
    torch::jit::WithInsertPoint guard(node);
    auto add = [&](Node *made, const c10::TypePtr &type) {
      graph.insertNode(made)->copyMetadata(node);
      made->output()->setType(type);
      return made->output();
    };
    if (isAsMade)
      return add(graph.create(current->node()->kind(), current->node()->inputs().vec()),
                 current->type());
    const c10::TypePtr bare = withoutNone(current->type());
    if (current->type()->kind() != c10::TypeKind::OptionalType)
      return add(graph.create(c10::aten::copy, {current}), bare);
    Value *none = graph.insertConstant(c10::IValue());
    Value *isThere = add(graph.create(c10::aten::__isnot__, {current, none}), c10::BoolType::get());
    Node *branch = graph.create(c10::prim::If, {isThere}, 1);
    Value *result = add(branch, current->type());
    for (bool there : {true, false}) {
      Block *block = branch->addBlock();
      torch::jit::WithInsertPoint inside(block);
      Value *left = none;
      if (there) {
        Value *cast = add(graph.create(c10::prim::unchecked_cast, {current}), bare);
        left = add(graph.create(c10::aten::copy, {cast}), bare);
      }
      block->registerOutput(left);
    }
    return result;
  }

  Block *top_;
  const AliasAnalysis &alias_;
  const size_t memory_;
  const bool isHeld_;
  std::vector<Value *> names_; // of the top level
  llvm::DenseMap<Node *, size_t> numbers_;
  std::vector<Node *> nodes_; // of the top level
  std::vector<Step> steps_;   // per node
  std::vector<size_t> order_; // nodes in program order
  bool changed_ = false;
};

/// Whether an operator changes the list, and not only the tensors in it. Of a copy, LibTorch would
/// drop a write into its tensors if nothing reads the copy afterwards.
bool isChanged(Value *list, const AliasAnalysis &alias) {
  const std::optional<size_t> memory = alias.memoryOf(list);
  return memory && llvm::any_of(alias.memories()[*memory].writers, [&](const Node *writer) {
           for (size_t i = 0; i < writer->inputs().size(); ++i)
             if (alias.memoryOf(writer->input(i)) == memory && writesElements(writer, i))
               return false;
           return true;
         });
}

/// A list argument that the model changes is copied first. The caller does not see the changes of a
/// run (the runtime passes copies), and a list of the model itself may be passed on.
bool copyChangedArguments(Model &model, const AliasAnalysis &alias) {
  torch::jit::Graph &graph = *model.graph;
  torch::jit::WithInsertPoint atBegin(*graph.nodes().begin());
  bool changed = false;
  for (size_t i = 0; i < model.argumentCount(); ++i) {
    Value *list = graph.inputs()[i];
    if (list->type()->kind() != c10::TypeKind::ListType || !isChanged(list, alias))
      continue;
    Value *copy = graph.insert(c10::aten::copy, {list})->setType(list->type());
    list->replaceAllUsesAfterNodeWith(copy->node(), copy);
    changed = true;
  }
  return changed;
}

class FunctionaliseContainers : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    const std::shared_ptr<const AliasAnalysis> kept = aliasesOf(model, context);
    const AliasAnalysis &alias = *kept;
    if (copyChangedArguments(model, alias))
      return true;
    std::vector<bool> isHeld(alias.memories().size(), false);
    for (const AliasAnalysis::Memory &memory : alias.memories())
      for (size_t held : memory.holds)
        isHeld[held] = true;
    std::vector<bool> isUnknown(alias.memories().size(), false);
    for (const AliasAnalysis::Effect &effect : alias.effects())
      for (size_t memory : alias.writesOf(effect.node))
        isUnknown[memory] = true;
    bool changed = false;
    for (size_t i = 0; i < alias.memories().size(); ++i) {
      const AliasAnalysis::Memory &memory = alias.memories()[i];
      if (memory.lastLateWrite < 0 || memory.attribute || memory.userInput || isUnknown[i])
        continue;
      changed |= Container(model.graph->block(), alias, i, isHeld[i]).run();
    }
    return changed || sinkContainers(model.graph->block(), alias);
  }
};

} // namespace

PassInfo functionaliseContainers() {
  return {.name = "functionalise-containers",
          .description = "gives an operator that changes a list or dict a copy of its own, made "
                         "just before it; makes dicts where they are first used",
          .requires_ = "a flat graph",
          .guarantees = "each reader sees what it saw before; a list or dict with one name at a "
                        "time is changed directly after it is made",
          .example = R"(
    prim::If(%c)
      block0(): %3 : Tensor[] = aten::append(%2, %1) -> ()
      block1(): -> ()
    %4 : Tensor = aten::cat(%2, %z)
    =>
    %5 : Tensor[] = aten::copy(%2)
    prim::If(%c)
      block0(): %3 : Tensor[] = aten::append(%5, %1) -> ()
      block1(): -> ()
    %4 : Tensor = aten::cat(%5, %z))",
          .make = withoutOptions<FunctionaliseContainers>()};
}

} // namespace pipec

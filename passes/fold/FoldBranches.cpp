#include "passes/fold/FoldBranches.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/KnownConditions.h"
#include "passes/analysis/TopLevel.h"
#include "passes/fold/FoldOperator.h"
#include "passes/support/Contents.h"

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool replaceInside(Folding &folding, Value *old, Block *block, llvm::function_ref<Value *()> by) {
  std::vector<torch::jit::Use> inside;
  for (const torch::jit::Use &use : old->uses())
    if (isInside(use.user, block))
      inside.push_back(use);
  if (inside.empty())
    return false;
  Value *made = by();
  if (made == old)
    return false;
  for (const torch::jit::Use &use : inside)
    folding.replaceUse(use, made);
  return true;
}

/// Lists and dicts that grow in branches keep their results, because later passes find them by
/// these.
/// In `block` the branches of `chosen` go one way. Uses of its results there are replaced by the
/// values of that branch, if these are visible there.
bool replaceChosen(Folding &folding, Node *chosen, bool taken, Block *block) {
  Block *branch = chosen->blocks()[taken ? 0 : 1];
  bool changed = false;
  for (size_t i = 0; i < chosen->outputs().size(); ++i) {
    Value *leaf = branch->outputs()[i], *result = chosen->output(i);
    if (leaf->node()->kind() == c10::prim::Constant &&
        leaf->type()->kind() != c10::TypeKind::TensorType) {
      const std::optional<c10::IValue> constant = torch::jit::toIValue(leaf);
      changed |= constant && replaceInside(folding, result, block, [&] {
                   torch::jit::WithInsertPoint guard(*block->nodes().begin());
                   return block->owningGraph()->insertConstant(*constant);
                 });
    } else if (leaf->node()->owningBlock() != branch && !isListOrDict(*result->type()) &&
               leaf->type()->isSubtypeOf(*result->type())) {
      changed |= replaceInside(folding, result, block, [&] { return leaf; });
    }
  }
  return changed;
}

constexpr size_t kMostLeaves = 64; // of a tree of branches that a value comes from

/// The node's result for each constant that the branches may choose, in order of the leaves; absent
/// if a leaf is not a constant.
class ThroughBranch {
public:
  ThroughBranch(Folding &folding, Node *node, size_t operand)
      : folding_(folding), node_(node), operand_(operand) {}

  bool collect(Value *value) {
    if (isChosen(value))
      return llvm::all_of(value->node()->blocks(), [&](Block *branch) {
        return collect(branch->outputs()[value->offset()]);
      });
    std::optional<c10::IValue> result = resultFor(value);
    if (!result || results_.size() == kMostLeaves)
      return false;
    results_.push_back(std::move(*result));
    return true;
  }

  const std::vector<c10::IValue> &results() const { return results_; }

  /// The same branches choose among the results: each branch gets one more result.
  Value *choose(Value *value) {
    torch::jit::Graph &graph = *node_->owningGraph();
    Node *branches = value->node();
    for (Block *branch : branches->blocks()) {
      Value *leaf = branch->outputs()[value->offset()], *made = nullptr;
      if (isChosen(leaf)) {
        made = choose(leaf);
      } else {
        torch::jit::WithInsertPoint guard(branch->return_node());
        made = graph.insertConstant(results_[next_++]);
      }
      branch->registerOutput(made);
    }
    folding_.lookAgain(branches);
    return branches->addOutput()->setType(node_->output()->type());
  }

  static bool isChosen(const Value *value) { return value->node()->kind() == c10::prim::If; }

private:
  std::optional<c10::IValue> resultFor(Value *leaf) const {
    const c10::Symbol kind = node_->kind();
    if (kind == c10::aten::__is__ || kind == c10::aten::__isnot__)
      return identityFor(*leaf->type(), kind == c10::aten::__is__);
    std::optional<c10::IValue> constant = Folding::constant(leaf);
    if (!constant)
      return std::nullopt;
    torch::jit::Stack arguments;
    for (size_t i = 0; i < node_->inputs().size(); ++i) {
      std::optional<c10::IValue> other =
          i == operand_ ? constant : Folding::constant(node_->input(i));
      if (!other)
        return std::nullopt;
      arguments.push_back(std::move(*other));
    }
    return computedFor(folding_, node_, std::move(arguments));
  }

  /// The value of `leaf is None` or `leaf is not None`; nullopt: not known.
  std::optional<c10::IValue> identityFor(const c10::Type &leaf, bool is) const {
    if (node_->input(1 - operand_)->type()->kind() != c10::TypeKind::NoneType)
      return std::nullopt;
    if (leaf.kind() == c10::TypeKind::NoneType)
      return c10::IValue(is);
    return leaf.kind() == c10::TypeKind::TensorType ? std::optional<c10::IValue>(!is)
                                                    : std::nullopt;
  }

  Folding &folding_;
  Node *node_;
  size_t operand_;
  std::vector<c10::IValue> results_;
  size_t next_ = 0;
};

bool isPlain(const c10::Type &type) {
  return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::BoolType ||
         type.kind() == c10::TypeKind::StringType;
}

/// Sizes that branches choose stay arithmetic, which stages repeat; conditions and texts do not.
bool leadsToConditions(const c10::Type &operand, const c10::Type &result) {
  return result.kind() == c10::TypeKind::BoolType || operand.kind() == c10::TypeKind::StringType;
}

} // namespace

bool foldThroughBranch(Folding &folding, Node *node) {
  if (!isPlain(*node->output()->type()))
    return false;
  std::optional<size_t> operand;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    if (Folding::constant(node->input(i)))
      continue;
    if (operand || !ThroughBranch::isChosen(node->input(i)))
      return false;
    operand = i;
  }
  if (!operand || !leadsToConditions(*node->input(*operand)->type(), *node->output()->type()))
    return false;
  ThroughBranch through(folding, node, *operand);
  if (!through.collect(node->input(*operand)))
    return false;
  const std::vector<c10::IValue> &results = through.results();
  if (llvm::all_of(results, [&](const c10::IValue &result) { return result == results.front(); }))
    return folding.replaceByConstant(node->output(), results.front());
  return folding.replace(node->output(), through.choose(node->input(*operand)));
}

/// Whether something in the block reads a boolean or the result of a branch. Nothing else changes
/// there by what is known of conditions, and these may have as many uses as the model has modules.
static bool readsConditions(Block *block) {
  auto readsOne = [](const Node *node) {
    return llvm::any_of(node->inputs(), [](const Value *input) {
      return input->type()->kind() == c10::TypeKind::BoolType ||
             input->node()->kind() == c10::prim::If;
    });
  };
  return readsOne(block->return_node()) || llvm::any_of(block->nodes(), [&](Node *node) {
           return readsOne(node) || llvm::any_of(node->blocks(), readsConditions);
         });
}

bool foldKnownConditions(Folding &folding, Node *node) {
  if (node->kind() != c10::prim::If)
    return false;
  bool changed = false;
  for (size_t k : {0, 1}) {
    Block *block = node->blocks()[k];
    if (!readsConditions(block))
      continue;
    KnownConditions known;
    known.assume(node->input(0), k == 0);
    for (size_t i = 0; i < known.all().size(); ++i) {
      const auto [condition, is] = known.all()[i];
      std::vector<Node *> others;
      for (const torch::jit::Use &use : condition->uses()) {
        if (use.user->kind() == c10::aten::__not__)
          known.assume(use.user->output(), !is);
        if (use.user->kind() == c10::prim::If && use.user != node && !isInside(use.user, block))
          others.push_back(use.user);
      }
      changed |= condition->node()->kind() != c10::prim::Constant &&
                 replaceInside(folding, condition, block, [&, is = is] {
                   torch::jit::WithInsertPoint guard(*block->nodes().begin());
                   return block->owningGraph()->insertConstant(is);
                 });
      for (Node *other : others)
        changed |= replaceChosen(folding, other, is, block);
    }
  }
  return changed;
}

} // namespace pipec

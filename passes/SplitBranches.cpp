// split-branches: splits a large branch, whose condition depends only on the model's number and
// flag arguments, into one branch per step, so that a cut may stand between the steps:
//
//   %y : Tensor = prim::If(%fast)          %h : Tensor = prim::If(%fast)
//     block0():                              block0():
//       %a : Tensor = aten::relu(%x)           %a : Tensor = aten::relu(%x)
//       %b : Tensor = aten::neg(%a)            -> (%a)
//       -> (%b)                              block1():
//     block1():                                %c : Tensor = aten::exp(%x)
//       %c : Tensor = aten::exp(%x)            -> (%c)
//       %d : Tensor = aten::abs(%c)      =>  %y : Tensor = prim::If(%fast)
//       -> (%d)                              block0():
//                                              %b : Tensor = aten::neg(%h)
//                                              -> (%b)
//                                            block1(): ...
//
// If only one branch passes a value on, the other branch returns an empty tensor or a zero in its
// place. No operator reads that, because the condition is the same for all steps.
#include "ir/MarkerOps.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/Passes.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

class SplitBranches : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    model_ = &model;
    bool changed = false;
    for (auto it = model.graph->nodes().begin(); it != model.graph->nodes().end();) {
      Node *node = *it;
      ++it; // new nodes stand before
      if (node->kind() == c10::prim::If && isKnownAtStart(node->input(0), kMostDeep))
        changed |= split(node);
    }
    return changed;
  }

private:
  using Step = std::vector<Node *>;

  static constexpr int kMostDeep = 8;      // of the arithmetic that makes a condition
  static constexpr size_t kLeastSteps = 8; // below that, little is gained

  static bool isNumber(const Value *value) {
    switch (value->type()->kind()) {
    case c10::TypeKind::BoolType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
      return true;
    default:
      return false;
    }
  }

  /// A number argument, or a value computed only from such arguments.
  bool isKnownAtStart(Value *value, int deep) const {
    Node *node = value->node();
    if (!isNumber(value) || deep == 0)
      return false;
    if (node->kind() == c10::prim::Param)
      return node == model_->graph->param_node() && value->offset() < model_->argumentCount();
    if (node->kind() == c10::prim::Constant)
      return true;
    return node->kind().is_aten() && node->blocks().empty() && !node->isNondeterministic() &&
           llvm::all_of(node->inputs(),
                        [&](Value *input) { return isKnownAtStart(input, deep - 1); });
  }

  /// A step ends with an operator that makes a tensor or has an effect; sizes and lists go with the
  /// operators that need them. Empty: the branch cannot be split.
  static std::vector<Step> stepsOf(Block *block) {
    std::vector<Step> steps(1);
    for (Node *node : block->nodes()) {
      if (node->kind() == c10::prim::Constant)
        continue;
      steps.back().push_back(node);
      const bool isLarge = !node->blocks().empty() || node->outputs().empty() ||
                           llvm::any_of(node->outputs(), [](const Value *value) {
                             return value->type()->kind() == c10::TypeKind::TensorType;
                           });
      if (isLarge)
        steps.emplace_back();
    }
    if (steps.back().empty())
      steps.pop_back();
    return steps;
  }

  /// Whether no node inside leaves early or is a marker, and all values that a step may pass on
  /// have a substitute.
  static bool mayBeSplit(Block *block) {
    return llvm::none_of(block->nodes(), [](Node *node) {
      if (node->kind() == c10::prim::Constant)
        return false;
      return firstInside(node,
                         [](Node *inner) {
                           return inner->kind() == c10::prim::RaiseException ||
                                  inner->kind() == c10::prim::Uninitialized ||
                                  inner->kind() == cutSymbol() ||
                                  inner->kind() == pipeSplitSymbol();
                         }) ||
             llvm::any_of(node->outputs(), [](const Value *value) {
               return value->type()->kind() != c10::TypeKind::TensorType && !isNumber(value) &&
                      !isIntList(*value->type());
             });
    });
  }

  bool split(Node *branch) {
    Block *sides[2] = {branch->blocks()[0], branch->blocks()[1]};
    std::vector<Step> steps[2];
    for (int side : {0, 1}) {
      if (!mayBeSplit(sides[side]))
        return false;
      steps[side] = stepsOf(sides[side]);
    }
    const size_t count = std::max(steps[0].size(), steps[1].size());
    if (count < kLeastSteps)
      return false;
    for (Block *side : sides)
      hoistConstants(side, branch);
    size_t next[2] = {0, 0};
    for (size_t k = 0; k < count; ++k) {
      Node *part = model_->graph->create(c10::prim::If, {branch->input(0)}, 0);
      part->insertBefore(branch)->copyMetadata(branch);
      for (int side : {0, 1}) {
        Block *block = part->addBlock();
        for (; next[side] < (k + 1) * steps[side].size() / count; ++next[side])
          for (Node *node : steps[side][next[side]]) {
            node->moveBefore(block->return_node());
            part->copyMetadata(node);
          }
      }
      handOn(part);
    }
    takeResults(branch);
    return true;
  }

  static void hoistConstants(Block *block, Node *before) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node *node = *it;
      ++it;
      if (node->kind() == c10::prim::Constant)
        node->moveBefore(before);
    }
  }

  static std::vector<torch::jit::Use> usesOutside(Value *value, const Node *part) {
    std::vector<torch::jit::Use> uses;
    for (const torch::jit::Use &use : value->uses())
      if (!isInside(use.user, part))
        uses.push_back(use);
    return uses;
  }

  /// Passes on the values of the steps of both sides, in pairs if their types are equal.
  void handOn(Node *part) {
    std::vector<Value *> made[2];
    for (int side : {0, 1})
      for (Node *node : part->blocks()[side]->nodes())
        for (Value *value : node->outputs())
          if (!usesOutside(value, part).empty())
            made[side].push_back(value);
    for (Value *value : made[0]) {
      auto same = llvm::find_if(made[1], [&](Value *other) {
        return other && other->type()->kind() == value->type()->kind();
      });
      Value *other = same != made[1].end() ? *same : nothing(part->blocks()[1], *value->type());
      if (same != made[1].end())
        *same = nullptr;
      handOn(part, value, other);
    }
    for (Value *value : made[1])
      if (value)
        handOn(part, nothing(part->blocks()[0], *value->type()), value);
  }

  static void handOn(Node *part, Value *left, Value *right) {
    part->blocks()[0]->registerOutput(left);
    part->blocks()[1]->registerOutput(right);
    Value *both = part->addOutput();
    both->setType(left->type()->kind() == c10::TypeKind::TensorType
                      ? c10::TypePtr(c10::TensorType::get())
                      : left->type());
    for (Value *value : {left, right})
      for (const torch::jit::Use &use : usesOutside(value, part))
        use.user->replaceInput(use.offset, both);
  }

  /// The substitute for a value that only the other side passes on.
  Value *nothing(Block *block, const c10::Type &type) {
    torch::jit::Graph &graph = *model_->graph;
    torch::jit::WithInsertPoint guard(block->return_node());
    switch (type.kind()) {
    case c10::TypeKind::BoolType:
      return graph.insertConstant(false);
    case c10::TypeKind::IntType:
      return graph.insertConstant(0);
    case c10::TypeKind::FloatType:
      return graph.insertConstant(0.0);
    case c10::TypeKind::ListType:
      return graph.insertConstant(c10::List<int64_t>());
    default:
      break;
    }
    Value *none = graph.insertConstant(c10::IValue());
    Value *sizes = graph.insertConstant(c10::List<int64_t>({0}));
    Node *zeros = graph.create(c10::aten::zeros, {sizes, none, none, none, none});
    return graph.insertNode(zeros)->output();
  }

  /// A result that both sides passed on in one pair is that pair's value; the others are chosen at
  /// the end.
  static void takeResults(Node *branch) {
    for (size_t i = branch->outputs().size(); i-- > 0;) {
      Value *left = branch->blocks()[0]->outputs()[i], *right = branch->blocks()[1]->outputs()[i];
      if (left == right)
        branch->output(i)->replaceAllUsesWith(left);
      if (branch->output(i)->hasUses())
        continue;
      branch->eraseOutput(i);
      for (Block *block : branch->blocks())
        block->eraseOutput(i);
    }
    if (branch->outputs().empty())
      branch->destroy();
  }

  Model *model_ = nullptr;
};

} // namespace

PassInfo splitBranches() {
  return {.name = "split-branches",
          .description = "splits a large branch on a number or flag argument into one branch per "
                         "step, so that cuts can go between the steps",
          .requires_ = "a flat graph",
          .guarantees = "every operator runs under the condition it ran under, in the same order; "
                        "branches that raise or leave early stay",
          .example = R"(
    %y : Tensor = prim::If(%fast)
      block0(): %a : Tensor = aten::relu(%x)  %b : Tensor = aten::neg(%a) -> (%b)
      block1(): %c : Tensor = aten::exp(%x)   %d : Tensor = aten::abs(%c) -> (%d)
    =>
    %h : Tensor = prim::If(%fast)
      block0(): %a : Tensor = aten::relu(%x) -> (%a)
      block1(): %c : Tensor = aten::exp(%x) -> (%c)
    %y : Tensor = prim::If(%fast)
      block0(): %b : Tensor = aten::neg(%h) -> (%b)
      block1(): %d : Tensor = aten::abs(%h) -> (%d))",
          .make = withoutOptions<SplitBranches>()};
}

} // namespace pipec

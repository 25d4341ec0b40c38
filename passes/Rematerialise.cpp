// rematerialise: the stage that needs sizes and integer arithmetic on them computes them again,
// from tensors that it receives anyway, so that they need not be sent.
#include "ir/WholeNumbers.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// The longest chain of operators repeated for one value; a longer one costs more than a message.
constexpr size_t kMaxChain = 32;

class Rematerialise : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    TopLevel top = topLevelOf(model);
    if (top.boundaries.empty())
      return false;
    alias_ = aliasesOf(model, context);
    assign(top);
    for (size_t stage = 1; stage <= top.boundaries.size(); ++stage)
      fillStage(stage, top);
    extendCosts(model, context.costs);
    for (const auto &[where, times] : repeated_)
      model.obligations.push_back(Obligation::recompute(where.second, times, where.first));
    return !copies_.empty();
  }

private:
  void assign(const TopLevel &top) {
    size_t stage = 0;
    for (size_t i = 0; i < top.operators.size(); ++i) {
      while (stage < top.boundaries.size() && top.boundaries[stage] <= i)
        ++stage;
      for (Value *output : top.operators[i]->outputs())
        definedIn_[output] = stage;
    }
  }

  void fillStage(size_t stage, const TopLevel &top) {
    size_t begin = top.boundaries[stage - 1];
    size_t end = stage < top.boundaries.size() ? top.boundaries[stage] : top.operators.size();
    std::vector<std::pair<Value *, Node *>>
        wanted; // crossing values and their first user in this stage, in order
    std::set<Value *> seen;
    available_.clear();
    for (size_t i = begin; i < end; ++i)
      forEachOuterUse(top.operators[i], [&](Value *value) {
        if (value->type()->kind() == c10::TypeKind::TensorType)
          available_.insert(value);
        if (crosses(value, stage) && isWholeNumberOp(value->node()) && seen.insert(value).second)
          wanted.emplace_back(value, top.operators[i]);
      });
    made_.clear();
    for (auto &[value, user] : wanted) {
      std::vector<Node *> chain;
      std::set<Node *> inChain;
      if (!collect(value, stage, chain, inChain) || chain.size() > kMaxChain)
        continue;
      repeat(chain, top.operators[begin]);
      for (Node *node : chain)
        ++repeated_[{stage, node->kind().toQualString()}];
      for (size_t i = begin; i < end; ++i)
        replaceIn(top.operators[i], value, made_.at(value));
    }
  }

  bool crosses(Value *value, size_t stage) const {
    auto defined = definedIn_.find(value);
    return defined != definedIn_.end() && defined->second < stage;
  }

  /// Collects the operators to repeat, producers first. Returns false if one is not cheap, or its
  /// tensor does not reach this stage anyway.
  bool collect(Value *value, size_t stage, std::vector<Node *> &chain, std::set<Node *> &inChain) {
    Node *node = value->node();
    if (node->kind() == c10::prim::Constant || made_.count(value) || inChain.count(node))
      return true;
    if (value->type()->kind() == c10::TypeKind::TensorType &&
        node->kind() != c10::prim::Uninitialized)
      return available_.count(value) && !alias_->isWritten(value);
    if (!crosses(value, stage) || !isWholeNumberOp(node) || alias_->isWritten(value))
      return false;
    if (chain.size() > kMaxChain)
      return false;
    for (Value *input : node->inputs())
      if (!collect(input, stage, chain, inChain))
        return false;
    inChain.insert(node);
    chain.push_back(node);
    return true;
  }

  void repeat(const std::vector<Node *> &chain, Node *before) {
    for (Node *node : chain) {
      auto original = [&](Value *input) {
        auto copy = made_.find(input);
        return copy == made_.end() ? input : copy->second;
      };
      Node *copy = node->owningGraph()->createClone(node, original);
      copy->insertBefore(before);
      copies_.insert(copy);
      made_[node->output()] = copy->output();
    }
  }

  static void replaceIn(Node *node, Value *from, Value *to) {
    node->replaceInputWith(from, to);
    for (Block *block : node->blocks()) {
      for (Node *inner : block->nodes())
        replaceIn(inner, from, to);
      for (size_t i = 0; i < block->outputs().size(); ++i)
        if (block->outputs()[i] == from)
          block->replaceOutput(i, to);
    }
  }

  /// The cost of the repeated operators is negligible.
  void extendCosts(const Model &model, std::vector<NodeCost> &costs) const {
    if (copies_.empty() || costs.empty())
      return;
    std::vector<NodeCost> all;
    size_t next = 0;
    for (Node *node : topLevelOf(model).operators)
      all.push_back(copies_.count(node) ? NodeCost{} : costs[next++]);
    costs = std::move(all);
  }

  std::shared_ptr<const AliasAnalysis> alias_;
  std::map<Value *, size_t> definedIn_;
  std::set<Value *> available_;
  std::map<Value *, Value *> made_; // within one stage
  std::set<Node *> copies_;
  std::map<std::pair<size_t, std::string>, int64_t> repeated_; // by stage and operator
};

} // namespace

PassInfo rematerialise() {
  return {.name = "rematerialise",
          .description = "computes sizes and integer arithmetic again in the stage that needs "
                         "them, from tensors that are sent there anyway",
          .requires_ = "boundaries are legal",
          .guarantees = "nothing random, written or floating is repeated; validation compares such "
                        "values by what they are, not by where they are computed",
          .example = R"(
    %n : int = aten::size(%x, %0)
    %h : Tensor = aten::relu(%x)
    pipec::cut()
    %y : Tensor = aten::add(%h, %x, %n)
    =>
    pipec::cut()
    %n2 : int = aten::size(%x, %0)
    %y : Tensor = aten::add(%h, %x, %n2))",
          .make = withoutOptions<Rematerialise>()};
}

} // namespace pipec

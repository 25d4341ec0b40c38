// cse: computes sizes and other integers once. Never tensors (sharing one changes the order in
// which gradients are summed) and never floats.
#include "ir/support/StringSwitch.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool isNumberLike(const c10::Type &type) {
  return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::BoolType;
}

/// Whether it reads only the form of a tensor, which no plain write changes.
bool readsForm(const Node *node) {
  return StringSwitch<bool>(node->kind().toQualString())
      .Cases({"aten::size", "aten::dim", "prim::dtype", "prim::device", "aten::is_floating_point"},
             true)
      .Default(false);
}

bool isArithmetic(const Node *node) {
  return StringSwitch<bool>(node->kind().toQualString())
      .Cases(
          {"aten::add", "aten::sub", "aten::mul", "aten::floordiv", "aten::remainder", "aten::neg"},
          true)
      .Cases({"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"}, true)
      .Cases(
          {"aten::__not__", "aten::__and__", "aten::__or__", "prim::min", "prim::max", "aten::abs"},
          true)
      .Cases({"aten::len", "aten::__getitem__", "aten::Bool", "aten::Int", "prim::ListConstruct"},
             true)
      .Default(false);
}

class CommonSubexpression : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    alias_ = aliasesOf(model, context);
    changed_ = false;
    formChanges_.assign(alias_->memories().size(), false);
    for (size_t i = 0; i < formChanges_.size(); ++i) {
      for (const Node *writer : alias_->memories()[i].writers)
        formChanges_[i] = formChanges_[i] || mayChangeForm(writer);
    }
    visit(model.graph->block());
    return changed_;
  }

private:
  using Key = std::vector<size_t>;

  /// Values of a block are known in its inner blocks, and forgotten at its end.
  void visit(Block *block) {
    std::vector<Key> own;
    for (Node *node = *block->nodes().begin(); node != block->return_node();) {
      Node *next = node->next();
      for (Block *inner : node->blocks())
        visit(inner);
      if (isCandidate(node)) {
        auto [known, isNew] = known_.try_emplace(keyOf(node), node->output());
        if (isNew) {
          own.push_back(known->first);
        } else {
          node->output()->replaceAllUsesWith(known->second);
          node->destroy();
          changed_ = true;
        }
      }
      node = next;
    }
    for (const Key &key : own)
      known_.erase(key);
  }

  bool isCandidate(Node *node) const {
    if (node->outputs().size() != 1 || !node->blocks().empty() || node->numAttributes() > 0)
      return false;
    const c10::Type &type = *node->output()->type();
    // Two equal lists must not become one list if an operator changes or keeps it.
    if (!isNumberLike(type) && type.kind() != c10::TypeKind::DeviceObjType &&
        !(isIntList(type) && isLeftAlone(node->output())))
      return false;
    if (readsForm(node))
      return !hasChangingForm(node->input(0));
    if (!isArithmetic(node))
      return false;
    for (Value *input : node->inputs()) {
      if (!isNumberLike(*input->type()) &&
          !(isContainer(*input->type()) && !alias_->isWritten(input)))
        return false;
    }
    return true;
  }

  static bool isContainer(const c10::Type &type) { return type.kind() == c10::TypeKind::ListType; }

  bool isLeftAlone(const Value *value) const {
    std::optional<size_t> memory = alias_->memoryOf(value);
    return memory && !alias_->memories()[*memory].written() &&
           !alias_->memories()[*memory].visible();
  }

  bool hasChangingForm(const Value *value) const {
    std::optional<size_t> memory = alias_->memoryOf(value);
    return !memory || formChanges_[*memory];
  }

  /// Constants are compared by content, so that two spellings of x.size(0) are one value; other
  /// values by identity.
  Key keyOf(const Node *node) const {
    Key key{static_cast<size_t>(static_cast<c10::unique_t>(node->kind())),
            static_cast<size_t>(node->output()->type()->kind())};
    for (const Value *input : node->inputs()) {
      std::optional<c10::IValue> constant = torch::jit::toIValue(input);
      if (constant && (constant->isInt() || constant->isBool())) {
        key.push_back(constant->isInt() ? 1 : 2);
        key.push_back(
            static_cast<size_t>(constant->isInt() ? constant->toInt() : constant->toBool()));
        continue;
      }
      key.push_back(0);
      key.push_back(input->unique());
    }
    return key;
  }

  std::shared_ptr<const AliasAnalysis> alias_;
  std::vector<bool> formChanges_;
  std::map<Key, Value *> known_;
  bool changed_ = false;
};

} // namespace

PassInfo commonSubexpression() {
  return {
      .name = "cse",
      .description = "computes equal sizes, integers, booleans and integer lists once",
      .requires_ = "a flat graph",
      .guarantees =
          "no tensor and no float is shared that was not shared before: gradients keep their bits",
      .example = R"(
    %3 : int = aten::size(%x, %0)
    %4 : int = aten::size(%x, %0)
    %5 : int = aten::add(%3, %4)
    =>
    %3 : int = aten::size(%x, %0)
    %5 : int = aten::add(%3, %3))",
      .make = withoutOptions<CommonSubexpression>()};
}

} // namespace pipec

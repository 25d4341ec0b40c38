#include "passes/GradRegions.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "passes/BareOperators.h"
#include "passes/GradModeSwitch.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool isKind(const Node *node, const char *kind) {
  return node->kind() == c10::Symbol::fromQualString(kind);
}

bool isNoGrad(const Value *object) {
  const auto type = object->type()->cast<c10::ClassType>();
  return type && type->name() &&
         type->name()->qualifiedName() == "__torch__.torch.autograd.grad_mode.no_grad";
}

/// Sets the flag of a weight or buffer, which nothing but a training reads.
bool setsFlagOfAttribute(const Node *node) {
  return isKind(node, "aten::requires_grad_") &&
         node->input(0)->node()->kind() == c10::prim::GetAttr;
}

/// Initial: on in a training, but for the test runs of forwards.
enum class GradMode { Initial, On, Off };

class GradRegions {
public:
  explicit GradRegions(Model &model) : model_(model), operators_(model) {}

  llvm::Expected<bool> run() {
    GradMode mode = GradMode::Initial;
    TRY(walk(*model_.graph->block(), mode, nullptr));
    for (Node *node : setters_)
      node->destroy();
    return changed_;
  }

private:
  bool trains() const { return model_.mode == Mode::Train; }

  /// `region`: the one that the block is in, or null. `mode` becomes the one at its end.
  llvm::Error walk(Block &block, GradMode &mode, GradRegion *region) {
    std::optional<GradRegion> own;
    std::vector<std::pair<const Value *, GradMode>> entered; // and the mode before
    if (region)
      region->inside.insert(block.inputs().begin(), block.inputs().end());
    for (Node *node = *block.nodes().begin(), *next; node != block.return_node(); node = next) {
      next = node->next();
      GradMode after = mode;
      if (node->kind() == c10::prim::Enter && isNoGrad(node->input())) {
        entered.push_back({node->input(), mode});
        after = GradMode::Off;
        changed_ = true;
      } else if (node->kind() == c10::prim::Exit && !entered.empty() &&
                 entered.back().first == node->input()) {
        after = entered.back().second;
        entered.pop_back();
      } else if (!trains() && setsFlagOfAttribute(node)) {
        node->output()->replaceAllUsesWith(node->input(0));
        setters_.push_back(node);
        changed_ = true;
      } else if (isKind(node, "aten::is_grad_enabled")) {
        answer(node, mode);
      } else if (isKind(node, "aten::set_grad_enabled")) {
        TRY(setMode(node, after));
      } else if (llvm::Error error = visit(node, mode, region)) {
        return error;
      }
      if (trains() && (after == GradMode::Off) != (mode == GradMode::Off))
        region = after == GradMode::Off ? &own.emplace(GradRegion{node}) : nullptr;
      mode = after;
    }
    return llvm::Error::success();
  }

  void answer(Node *node, GradMode mode) {
    if (mode == GradMode::Initial) {
      initial_.insert(node->output());
      return;
    }
    torch::jit::WithInsertPoint guard(node);
    node->output()->replaceAllUsesWith(node->owningGraph()->insertConstant(mode == GradMode::On));
    setters_.push_back(node);
    changed_ = true;
  }

  llvm::Error setMode(Node *node, GradMode &mode) {
    const std::optional<c10::IValue> given = torch::jit::toIValue(node->input(0));
    if (initial_.count(node->input(0)))
      mode = GradMode::Initial;
    else if (given && given->isBool())
      mode = given->toBool() ? GradMode::On : GradMode::Off;
    else if (trains())
      return refuseWith(Refusal::GradMode, describeNode(node),
                        "a mode that is only known in a run");
    else
      return llvm::Error::success();
    setters_.push_back(node);
    changed_ = true;
    return llvm::Error::success();
  }

  llvm::Error visit(Node *node, GradMode mode, GradRegion *region) {
    if (switchesGradientsOff(node)) // of an earlier run of this
      return llvm::Error::success();
    for (Block *inner : node->blocks()) {
      GradMode after = mode;
      TRY(walk(*inner, after, region));
      if (trains() && after != mode)
        return refuseWith(Refusal::GradMode, describeNode(node),
                          "a mode that depends on which branch runs");
    }
    if (!region) {
      operators_.readLeaves(node);
      return llvm::Error::success();
    }
    region->inside.insert(node->outputs().begin(), node->outputs().end());
    const bool isChanged = TRY(operators_.lower(node, *region));
    changed_ |= isChanged;
    return llvm::Error::success();
  }

  Model &model_;
  bool changed_ = false;
  BareOperators operators_;
  std::unordered_set<const Value *> initial_; // answers that are the initial mode
  std::vector<Node *> setters_;
};

} // namespace

llvm::Expected<bool> lowerGradRegions(Model &model) { return GradRegions(model).run(); }

} // namespace pipec

#include "passes/GradRegions.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/BareState.h"
#include "passes/GradModeSwitch.h"
#include "passes/ReturnedArgument.h"
#include "passes/Treatment.h"
#include "passes/WholeForms.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_map>
#include <unordered_set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool isTensor(const c10::Type &type) { return type.kind() == c10::TypeKind::TensorType; }

bool isKind(const Node *node, const char *kind) {
  return node->kind() == c10::Symbol::fromQualString(kind);
}

bool isNoGrad(const Value *object) {
  const auto type = object->type()->cast<c10::ClassType>();
  return type && type->name() &&
         type->name()->qualifiedName() == "__torch__.torch.autograd.grad_mode.no_grad";
}

/// Initial: on in a training, but for the test runs of forwards.
enum class GradMode { Initial, On, Off };

/// One part without gradients, from the node before which it begins.
struct Region {
  Node *begin;
  std::unordered_set<const Value *> inside = {};            // values that it defines
  std::unordered_set<const Value *> bare = {};              // of these, those without a graph
  std::unordered_map<const Value *, Value *> detached = {}; // only looked up
};

class GradRegions {
public:
  explicit GradRegions(Model &model) : model_(model) {}

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
  llvm::Error walk(Block &block, GradMode &mode, Region *region) {
    std::optional<Region> own;
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
      } else if (isKind(node, "aten::is_grad_enabled")) {
        answer(node, mode);
      } else if (isKind(node, "aten::set_grad_enabled")) {
        TRY(setMode(node, after));
      } else if (llvm::Error error = visit(node, mode, region)) {
        return error;
      }
      if (trains() && (after == GradMode::Off) != (mode == GradMode::Off))
        region = after == GradMode::Off ? &own.emplace(Region{node}) : nullptr;
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

  llvm::Error visit(Node *node, GradMode mode, Region *region) {
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
      readLeaves(node);
      return llvm::Error::success();
    }
    region->inside.insert(node->outputs().begin(), node->outputs().end());
    return withoutGraph(node, *region);
  }

  /// Makes an operator of the region compute without a graph.
  llvm::Error withoutGraph(Node *node, Region &region) {
    if (writesElements(node)) {
      writeInMode(node, region);
      return llvm::Error::success();
    }
    if (treatmentOf(node) != Treatment::Computes)
      return llvm::Error::success();
    changed_ = true;
    if (asksForGradMode(node)) {
      computeInMode(node, region);
      return llvm::Error::success();
    }
    const std::vector<Value *> given = node->inputs().vec();
    bool isDone = true;
    for (size_t i = 0; i < given.size(); ++i) {
      Value *read;
      if (asksWhatIsRequired(node, i)) {
        read = forms_.of(given[i]);
        isDone &= isBare(read, region);
      } else {
        read = bareFormOf(given[i], node, region);
        isDone &= read != nullptr;
      }
      if (read && read != given[i])
        node->replaceInput(i, read);
    }
    if (!isDone)
      return detachResults(node, region);
    for (size_t r = 0; r < node->outputs().size(); ++r) {
      region.bare.insert(node->output(r));
      made_.insert(node->output(r));
      if (const std::optional<size_t> written = writtenAs(node, r);
          written && given[*written] != node->input(*written))
        node->output(r)->replaceAllUsesWith(given[*written]); // the tensor, with its graph
    }
    if (mayReturnArgument(node) && node->outputs().size() == 1 && given[0] != node->input(0))
      keepReturned(node, given[0], region);
    return llvm::Error::success();
  }

  /// In PyTorch, a view that a region made is a leaf that requires what its tensor does. Behind the
  /// region, too, operators ask for that. The gradient of the leaf goes nowhere.
  void readLeaves(Node *node) {
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      Value *given = node->input(i);
      const Node *maker = given->node();
      const bool isPart =
          maker->kind() == c10::prim::ListUnpack || maker->kind() == c10::aten::__getitem__;
      if (!isTensor(*given->type()) || !made_.count(isPart ? maker->input(0) : given) ||
          !asksWhatIsRequired(node, i))
        continue;
      if (Value *whole = forms_.of(given); whole != given)
        node->replaceInput(i, leafOf(whole));
    }
  }

  Value *leafOf(Value *whole) {
    Value *&known = leaves_[whole];
    if (known)
      return known;
    Node *maker = whole->node();
    Node *view = maker->owningGraph()->create(c10::Symbol::aten("alias"), {whole});
    view->insertAfter(maker)->copyMetadata(maker);
    return known = switchGradientsOff(view)->output();
  }

  /// Its results have no graph, whatever it reads.
  void computeInMode(Node *node, Region &region) {
    for (size_t i = 0; i < node->inputs().size(); ++i)
      node->replaceInput(i, forms_.of(node->input(i)));
    for (const Value *output : switchGradientsOff(node)->outputs()) {
      region.inside.insert(output);
      region.bare.insert(output);
    }
  }

  /// It gets the list itself, not one of detached tensors: LibTorch drops a write into the tensors
  /// of a list that nothing reads afterwards. A returned list holds the tensors with their graphs.
  void writeInMode(Node *node, Region &region) {
    changed_ = true;
    std::vector<bool> isNew;
    for (size_t i = 0; i < node->outputs().size(); ++i)
      isNew.push_back(i < node->schema().returns().size() &&
                      !node->schema().returns()[i].alias_info());
    Node *choice = switchGradientsOff(node);
    for (size_t i = 0; i < isNew.size(); ++i) {
      region.inside.insert(choice->output(i));
      if (isNew[i])
        region.bare.insert(choice->output(i));
    }
  }

  /// A tensor that the operator was given, and the bare form that it reads now.
  struct Given {
    Value *whole, *bare;
  };

  /// Where the operator returns its first argument itself, or one of a list, the result keeps that
  /// one's graph. Only a run shows whether it does.
  void keepReturned(Node *node, Value *argument, Region &region) {
    std::vector<Given> given = {{argument, node->input(0)}};
    if (!isTensor(*argument->type())) { // bareFormOf made a list of another one
      given.clear();
      for (size_t i = 0; i < argument->node()->inputs().size(); ++i)
        given.push_back({argument->node()->input(i), node->input(0)->node()->input(i)});
    }
    const std::vector<torch::jit::Use> users = node->output()->uses();
    torch::jit::WithInsertPoint guard(node->next());
    Value *result = isTensor(*node->output()->type()) ? chosen(node, node->output(), given, region)
                                                      : chosenOfList(node, given, region);
    for (const torch::jit::Use &use : users)
      use.user->replaceInput(use.offset, result);
  }

  /// Of `given` the tensor that `made` is; `made` if it is a new one.
  Value *chosen(Node *node, Value *made, const std::vector<Given> &given, Region &region) {
    Value *result = made;
    for (const auto &[whole, bare] : given)
      if (whole != bare)
        result = insertChoice(node, made, bare, whole, result);
    region.bare.insert(made);
    region.inside.insert(result);
    if (result != made) {
      region.detached[result] = made;
      forms_.addChosen(made, result);
    }
    return result;
  }

  /// The same for each element of a list: the operator made it of a list of as many tensors.
  Value *chosenOfList(Node *node, const std::vector<Given> &given, Region &region) {
    torch::jit::Graph &graph = *node->owningGraph();
    Node *unpack = graph.create(c10::prim::ListUnpack, {node->output()}, given.size());
    graph.insertNode(unpack)->copyMetadata(node);
    std::vector<Value *> elements;
    for (size_t i = 0; i < given.size(); ++i)
      elements.push_back(
          chosen(node, unpack->output(i)->setType(c10::TensorType::get()), {given[i]}, region));
    Node *list = graph.create(c10::prim::ListConstruct, elements);
    graph.insertNode(list)->copyMetadata(node);
    region.inside.insert(list->output());
    return list->output()->setType(node->output()->type());
  }

  /// The value without the graphs of its tensors; null where that cannot be made.
  Value *bareFormOf(Value *value, Node *user, Region &region) {
    if (!holdsTensors(*value->type()) || isBare(value, region))
      return value;
    if (isTensor(*value->type()))
      return detached(value, user, region);
    if (value->node()->kind() != c10::prim::ListConstruct ||
        !llvm::all_of(value->uses(), onlyReads))
      return nullptr;
    std::vector<Value *> elements;
    for (Value *element : value->node()->inputs()) {
      elements.push_back(bareFormOf(element, user, region));
      if (!elements.back())
        return nullptr;
    }
    if (elements == value->node()->inputs().vec())
      return value;
    Node *list = user->owningGraph()->create(c10::prim::ListConstruct, elements);
    list->insertBefore(user)->copyMetadata(user);
    list->output()->setType(value->type());
    return list->output();
  }

  /// Whether the list is as before after the use. A list whose tensors are written must keep its
  /// readers (writeInMode).
  static bool onlyReads(const torch::jit::Use &use) { return keepsElements(use) && !writes(use); }

  /// A tensor that the region made, a constant, a buffer (state gets no graph), or a list of these.
  bool isBare(Value *value, const Region &region) const {
    if (value->node()->kind() == c10::prim::Constant)
      return true;
    if (value->type()->kind() == c10::TypeKind::ListType)
      return isBareList(value, region);
    return region.bare.count(value) || readsBareState(value->node(), model_);
  }

  /// Made of bare tensors, and it gets no others.
  bool isBareList(Value *list, const Region &region) const {
    const bool isMadeBare = region.bare.count(list) || readsBareState(list->node(), model_) ||
                            (list->node()->kind() == c10::prim::ListConstruct &&
                             llvm::all_of(list->node()->inputs(),
                                          [&](Value *element) { return isBare(element, region); }));
    return isMadeBare && llvm::all_of(list->uses(), [&](const torch::jit::Use &use) {
             return keepsElements(use) || (writes(use) && addsOnlyBare(use, region));
           });
  }

  bool isArgument(const Value *value) const {
    return value->node()->kind() == c10::prim::Param &&
           value->node()->owningBlock() == model_.graph->block();
  }

  /// Whether a change of a list puts only bare tensors into it, and does not return it.
  bool addsOnlyBare(const torch::jit::Use &change, const Region &region) const {
    for (size_t i = 0; i < change.user->inputs().size(); ++i) {
      Value *given = change.user->input(i);
      if (i != change.offset && mayHoldTensor(*given->type()) &&
          !(isTensor(*given->type()) && isBare(given, region)))
        return false;
    }
    return llvm::all_of(change.user->outputs(), [](const Value *output) {
      return isTensor(*output->type()) || output->uses().empty();
    });
  }

  /// One per tensor and region, where both begin to exist.
  Value *detached(Value *value, Node *user, Region &region) {
    Value *&known = region.detached[value];
    if (known)
      return known;
    Node *node = user->owningGraph()->create(c10::aten::detach, {value});
    if (!region.inside.count(value))
      node->insertBefore(region.begin);
    else if (value->node()->kind() == c10::prim::Param)
      node->insertBefore(*value->node()->owningBlock()->nodes().begin());
    else
      node->insertAfter(value->node());
    node->copyMetadata(user);
    region.bare.insert(node->output());
    if (!isArgument(value)) // those require no gradients
      forms_.addDetached(node->output(), value);
    return known = node->output();
  }

  /// For arguments that may or may not be tensors, lists from elsewhere, and operators that ask
  /// what their arguments require.
  llvm::Error detachResults(Node *node, Region &region) {
    if (node->schema().is_mutable() || mayReturnArgument(node))
      return refuseWith(Refusal::HiddenTensors, describeNode(node));
    const auto isList = [](const Value *output) {
      return holdsTensors(*output->type()) && !isTensor(*output->type());
    };
    if (llvm::any_of(node->outputs(), isList)) {
      if (!llvm::all_of(node->outputs(), isFresh))
        return refuseWith(Refusal::HiddenTensors, describeNode(node));
      computeInMode(node, region);
      return llvm::Error::success();
    }
    for (Value *output : node->outputs()) {
      if (!isTensor(*output->type()))
        continue;
      Node *made = node->owningGraph()->create(c10::aten::detach, {output});
      made->insertAfter(node)->copyMetadata(node);
      output->replaceAllUsesAfterNodeWith(made, made->output());
      region.bare.insert(made->output());
    }
    return llvm::Error::success();
  }

  Model &model_;
  bool changed_ = false;
  // Of all regions: what follows may use views that an earlier one made.
  WholeForms forms_;
  std::unordered_set<const Value *> made_; // without a graph
  std::unordered_map<const Value *, Value *> leaves_;
  std::unordered_set<const Value *> initial_; // answers that are the initial mode
  std::vector<Node *> setters_;
};

} // namespace

llvm::Expected<bool> lowerGradRegions(Model &model) { return GradRegions(model).run(); }

} // namespace pipec

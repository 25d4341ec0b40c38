#include "passes/BareOperators.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/BareState.h"
#include "passes/GradModeSwitch.h"
#include "passes/ReturnedArgument.h"
#include "passes/Treatment.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

namespace {

bool isTensor(const c10::Type &type) { return type.kind() == c10::TypeKind::TensorType; }

/// Whether the list is as before after the use. A list whose tensors are written must keep its
/// readers (writeInMode).
bool onlyReads(const torch::jit::Use &use) { return keepsElements(use) && !writes(use); }

} // namespace

llvm::Expected<bool> BareOperators::lower(Node *node, GradRegion &region) {
  if (writesElements(node)) {
    writeInMode(node, region);
    return true;
  }
  if (treatmentOf(node) != Treatment::Computes)
    return false;
  if (asksForGradMode(node)) {
    computeInMode(node, region);
    return true;
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
  if (!isDone) {
    TRY(detachResults(node, region));
    return true;
  }
  for (size_t r = 0; r < node->outputs().size(); ++r) {
    region.bare.insert(node->output(r));
    made_.insert(node->output(r));
    if (const std::optional<size_t> written = writtenAs(node, r);
        written && given[*written] != node->input(*written))
      node->output(r)->replaceAllUsesWith(given[*written]); // the tensor, with its graph
  }
  if (mayReturnArgument(node) && node->outputs().size() == 1 && given[0] != node->input(0))
    keepReturned(node, given[0], region);
  return true;
}

/// In PyTorch, a view that a region made is a leaf that requires what its tensor does. Behind the
/// region, too, operators ask for that. The gradient of the leaf goes nowhere.
void BareOperators::readLeaves(Node *node) {
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

Value *BareOperators::leafOf(Value *whole) {
  Value *&known = leaves_[whole];
  if (known)
    return known;
  Node *maker = whole->node();
  Node *view = maker->owningGraph()->create(c10::Symbol::aten("alias"), {whole});
  view->insertAfter(maker)->copyMetadata(maker);
  return known = switchGradientsOff(view)->output();
}

void BareOperators::computeInMode(Node *node, GradRegion &region) {
  for (size_t i = 0; i < node->inputs().size(); ++i)
    node->replaceInput(i, forms_.of(node->input(i)));
  for (const Value *output : switchGradientsOff(node)->outputs()) {
    region.inside.insert(output);
    region.bare.insert(output);
  }
}

void BareOperators::writeInMode(Node *node, GradRegion &region) {
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

void BareOperators::keepReturned(Node *node, Value *argument, GradRegion &region) {
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

Value *BareOperators::chosen(Node *node, Value *made, const std::vector<Given> &given,
                             GradRegion &region) {
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

Value *BareOperators::chosenOfList(Node *node, const std::vector<Given> &given,
                                   GradRegion &region) {
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

Value *BareOperators::bareFormOf(Value *value, Node *user, GradRegion &region) {
  if (!holdsTensors(*value->type()) || isBare(value, region))
    return value;
  if (isTensor(*value->type()))
    return detached(value, user, region);
  if (value->node()->kind() != c10::prim::ListConstruct || !llvm::all_of(value->uses(), onlyReads))
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

bool BareOperators::isBare(Value *value, const GradRegion &region) const {
  if (value->node()->kind() == c10::prim::Constant)
    return true;
  if (value->type()->kind() == c10::TypeKind::ListType)
    return isBareList(value, region);
  return region.bare.count(value) || readsBareState(value->node(), model_);
}

bool BareOperators::isBareList(Value *list, const GradRegion &region) const {
  const bool isMadeBare = region.bare.count(list) || readsBareState(list->node(), model_) ||
                          (list->node()->kind() == c10::prim::ListConstruct &&
                           llvm::all_of(list->node()->inputs(),
                                        [&](Value *element) { return isBare(element, region); }));
  return isMadeBare && llvm::all_of(list->uses(), [&](const torch::jit::Use &use) {
           return keepsElements(use) || (writes(use) && addsOnlyBare(use, region));
         });
}

bool BareOperators::isArgument(const Value *value) const {
  return value->node()->kind() == c10::prim::Param &&
         value->node()->owningBlock() == model_.graph->block();
}

bool BareOperators::addsOnlyBare(const torch::jit::Use &change, const GradRegion &region) const {
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

Value *BareOperators::detached(Value *value, Node *user, GradRegion &region) {
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

llvm::Error BareOperators::detachResults(Node *node, GradRegion &region) {
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

} // namespace pipec

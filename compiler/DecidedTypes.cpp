#include "compiler/DecidedTypes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "passes/PassContext.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// Whether rank or dtype of the result depend on the sizes or elements of the operands.
bool dependsOnData(c10::Symbol kind) {
  static const llvm::StringSet<> kNames = {"squeeze", "squeeze_", "squeeze_copy", "tensor",
                                           "as_tensor"};
  return kNames.contains(kind.toUnqualString());
}

/// Whether a tensor changes its rank in place.
bool anyChangesRank(const Block &block) {
  return llvm::any_of(block.nodes(), [](const Node *node) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    return (schema && schema->is_mutable() && mayChangeRank(node)) ||
           llvm::any_of(node->blocks(), [](const Block *inner) { return anyChangesRank(*inner); });
  });
}

/// Whether an argument of this name is a number that rank and dtype of the result do not depend on.
bool isExtent(const std::string &argument) {
  static const llvm::StringSet<> kNames = {
      "start",  "end",     "step",     "length",  "index",       "size",        "split_size",
      "chunks", "other",   "alpha",    "value",   "fill_value",  "k",           "n",
      "steps",  "shifts",  "sections", "groups",  "num_classes", "padding_idx", "output_size",
      "beta",   "repeats", "self",     "exponent"};
  return kNames.contains(argument);
}

bool isNumberList(const c10::Type &type) {
  const auto *list = type.castRaw<c10::ListType>();
  if (!list)
    return false;
  c10::TypeKind kind = list->getElementType()->kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
         kind == c10::TypeKind::BoolType;
}

bool isList(const c10::Type &type) { return type.kind() == c10::TypeKind::ListType; }

/// Whether every use of the list reads it.
bool isOnlyRead(Value *list) {
  return llvm::all_of(list->uses(), [&](const torch::jit::Use &use) {
    Node *user = use.user;
    if (user->kind() == c10::prim::ListUnpack)
      return true;
    const torch::jit::FunctionSchema *schema = user->maybeSchema();
    return schema && user->kind().is_aten() && use.offset < schema->arguments().size() &&
           !(schema->arguments()[use.offset].alias_info() &&
             schema->arguments()[use.offset].alias_info()->isWrite());
  });
}

bool readsType(c10::Symbol kind) {
  return kind == c10::aten::dim || kind == c10::prim::dtype ||
         kind == c10::aten::is_floating_point || kind == c10::aten::is_complex;
}

bool isTensorLike(const c10::Type &type) {
  if (const auto *list = type.castRaw<c10::ListType>())
    return isTensorLike(*list->getElementType());
  return type.kind() == c10::TypeKind::TensorType;
}

} // namespace

DecidedTypes::DecidedTypes(const Model &model)
    : ranksChange_(anyChangesRank(*model.graph->block())) {
  llvm::ArrayRef<Value *> inputs(model.graph->inputs().data(), model.graph->inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->type()->kind() != c10::TypeKind::TensorType)
      continue;
    // A run may assign another tensor to an attribute, which the next run sees.
    bool assigned = i >= model.argumentCount() &&
                    llvm::is_contained(model.stateOutputs, i - model.argumentCount());
    if (!assigned)
      decided_.insert(inputs[i]);
  }
}

bool DecidedTypes::holds(Value *value) const {
  return !ranksChange_ &&
         (value->node()->kind() == c10::prim::Constant || decided_.count(value) > 0);
}

/// Whether the list holds pieces of a tensor, whose number depends on the tensor's sizes.
static bool lengthDependsOnSizes(Value *list) {
  return list->node()->kind().is_aten() && isList(*list->type()) && isTensorLike(*list->type());
}

bool DecidedTypes::hasLength(Value *list) const {
  return holds(list) || (!ranksChange_ && lengths_.count(list) > 0);
}

void DecidedTypes::visit(Node *node, Block *taken) {
  if (taken) { // its condition is decided
    for (size_t i = 0; i < node->outputs().size(); ++i)
      if (holds(taken->outputs()[i]))
        decided_.insert(node->output(i));
    return;
  }
  if (!node->blocks().empty())
    return;
  c10::Symbol kind = node->kind();
  bool makesList = kind == c10::prim::ListConstruct || kind == c10::prim::TupleConstruct;
  if (makesList || kind == c10::aten::size) {
    bool keeps = kind == c10::prim::TupleConstruct || isOnlyRead(node->output());
    bool all = llvm::all_of(node->inputs(), [&](Value *input) { return holds(input); });
    if (keeps && makesList && all)
      decided_.insert(node->output());
    else if (keeps && (makesList || (node->inputs().size() == 1 && all)))
      lengths_.insert(node->output());
    return;
  }
  if (!decidesResult(node))
    return;
  for (Value *output : node->outputs())
    if (!isList(*output->type()) || isOnlyRead(output))
      decided_.insert(output);
}

bool DecidedTypes::decidesResult(Node *node) const {
  c10::Symbol kind = node->kind();
  auto all = [&] { return llvm::all_of(node->inputs(), [&](Value *v) { return holds(v); }); };
  if (kind == c10::prim::NumToTensor)
    return true;
  if (kind == c10::aten::len)
    return hasLength(node->input(0)) && !lengthDependsOnSizes(node->input(0));
  if (readsType(kind) || kind == c10::prim::TupleUnpack || kind == c10::prim::ListUnpack ||
      kind == c10::prim::TupleIndex || kind == c10::prim::unchecked_cast ||
      kind == c10::aten::__getitem__ || kind == c10::aten::__is__ || kind == c10::aten::__isnot__)
    return all();
  if (!kind.is_aten() || !node->maybeSchema() || node->schema().is_vararg())
    return false;
  bool tensorsOut =
      llvm::all_of(node->outputs(), [](Value *output) { return isTensorLike(*output->type()); });
  if (tensorsOut)
    return decidesTensors(node);
  // Arithmetic and tests of decided numbers. Operators that read tensors are not decided.
  bool tensorsIn =
      llvm::any_of(node->inputs(), [](Value *input) { return isTensorLike(*input->type()); });
  return !tensorsIn && all();
}

bool DecidedTypes::decidesTensors(Node *node) const {
  if (dependsOnData(node->kind()))
    return false;
  const auto &arguments = node->schema().arguments();
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    Value *input = node->input(i);
    if (holds(input))
      continue;
    const c10::Type &type = *input->type();
    switch (type.kind()) {
    case c10::TypeKind::FloatType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
      continue;
    case c10::TypeKind::IntType:
      if (isExtent(arguments[i].name()))
        continue;
      return false;
    default:
      if (isNumberList(type) && hasLength(input))
        continue;
      return false;
    }
  }
  return true;
}

static bool holdsDict(const c10::Type &type) {
  return type.kind() == c10::TypeKind::DictType ||
         llvm::any_of(type.containedTypes(),
                      [](const c10::TypePtr &part) { return holdsDict(*part); });
}

/// All values made from an argument of this type would have to stay in one stage: a dict cannot
/// travel, and the caller sees writes into a list.
static bool mayStayAbsent(const c10::Type &type, bool isWritten) {
  if (type.kind() != c10::TypeKind::OptionalType)
    return false;
  return holdsDict(type) ||
         (isWritten && type.containedTypes()[0]->kind() == c10::TypeKind::ListType);
}

void decideAbsent(Model &model, PassContext &context, llvm::ArrayRef<c10::IValue> example) {
  for (size_t i = 0; i < model.argumentCount(); ++i) {
    Value *argument = model.graph->inputs()[i];
    InputSpec &input = model.signature.inputs[i];
    if (!mayStayAbsent(*argument->type(), input.written))
      continue;
    Obligation fact = Obligation::fact("input " + input.name, "value", "None");
    if (context.answers.given ? !llvm::is_contained(context.answers.facts, fact)
                              : i >= example.size() || !example[i].isNone())
      continue;
    argument->setType(c10::NoneType::get());
    input.type = "NoneType";
    if (argument->hasUses()) {
      torch::jit::WithInsertPoint guard(*model.graph->nodes().begin());
      argument->replaceAllUsesWith(model.graph->insertConstant(c10::IValue()));
    }
    model.obligations.push_back(std::move(fact));
    context.notes.push_back(
        "argument " + input.name +
        " is always None, as in the example inputs; for an artifact that accepts a value, pass "
        "example inputs that give it one");
  }
}

void decideAbsentResults(Model &model) {
  for (size_t l = 0; l < model.signature.leaves.size(); ++l)
    if (model.graph->outputs()[l]->type()->kind() == c10::TypeKind::NoneType)
      model.signature.leaves[l].type = "NoneType";
}

} // namespace pipec

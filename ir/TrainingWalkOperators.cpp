// How operators compare in the two modes of a TrainingWalk.
#include "ir/NodeInfo.h"
#include "ir/ScriptTraceback.h"
#include "ir/TorchError.h"
#include "ir/TrainingWalk.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

bool areSameValues(const c10::IValue &a, const c10::IValue &b) {
  if (a.isDouble() && b.isDouble() && std::isnan(a.toDouble()) && std::isnan(b.toDouble()))
    return true;
  return a.isTensor() || b.isTensor() || a.isObject() || b.isObject()
             ? a.is(b)
             : a.tagKind() == b.tagKind() && c10::_fastEqualsForContainer(a, b);
}

bool isMessage(const Node *node) {
  return node->kind() == c10::prim::Print || node->kind() == c10::prim::RaiseException ||
         node->kind() == c10::aten::warn;
}

bool isChanged(const Value *value) {
  return llvm::any_of(value->uses(), [](const torch::jit::Use &use) {
    const c10::FunctionSchema *schema = use.user->maybeSchema();
    return schema && schema->is_mutable();
  });
}

bool hasEffect(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  return node->kind() == c10::prim::SetAttr ||
         (schema ? schema->is_mutable() : !node->kind().is_prim()) ||
         node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
}

/// Whether the operator can be computed during the walk: it takes numbers and texts, and has no
/// effect.
bool isComputable(Node *node, llvm::ArrayRef<c10::IValue> inputs) {
  return !hasEffect(node) && !isMessage(node) && node->blocks().empty() &&
         !isRandomOp(node->kind().toQualString()) && !node->inputs().empty() &&
         llvm::none_of(node->outputs(),
                       [](const Value *output) {
                         return output->type()->kind() == c10::TypeKind::TensorType ||
                                isChanged(output);
                       }) &&
         llvm::none_of(
             inputs, [](const c10::IValue &value) { return value.isTensor() || value.isObject(); });
}

/// Arguments that switch an operator to training mode, or say how much it drops there.
bool isSwitch(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases("train", "training", "use_input_stats", true)
      .Cases("p", "dropout", "dropout_p", true)
      .Default(false);
}

bool hasSwitch(Node *node) {
  return inputNamed(node, "train") || inputNamed(node, "training") ||
         inputNamed(node, "use_input_stats") || isRandomOp(node->kind().toQualString());
}

bool isDropout(Node *node) {
  const llvm::StringRef name = node->kind().toUnqualString();
  return node->kind().is_aten() && name.contains("dropout") && inputNamed(node, "train") &&
         node->outputs().size() == 1;
}

/// A traced operator has the lines of a Python stack in place of its source.
bool isTraced(const Node *node) { return isPythonStack(node->sourceRange().str()); }

} // namespace

bool TrainingWalk::isNumberOrText(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::DeviceObjType:
    return true;
  case c10::TypeKind::ListType:
  case c10::TypeKind::OptionalType:
    return isNumberOrText(*type.containedType(0));
  default:
    return false;
  }
}

bool TrainingWalk::areSame(const Fact &a, const Fact &b) {
  if (a.known && b.known)
    return areSameValues(*a.known, *b.known);
  return !a.known && !b.known && a.id == b.id;
}

std::optional<c10::IValue> TrainingWalk::compute(Node *node, Call &call, Mode mode) const {
  torch::jit::Stack stack;
  const bool asksForNone =
      node->kind() == c10::aten::__is__ || node->kind() == c10::aten::__isnot__;
  for (const Value *input : node->inputs()) {
    const Fact &fact = call.facts.at(input)[mode];
    if (!fact.known && !(asksForNone && fact.isPresent))
      return std::nullopt;
    stack.push_back(fact.known.value_or(c10::IValue("some value")));
  }
  if (asksForNone) { // of two values that are not None, only a run knows
    if (!stack[0].isNone() && !stack[1].isNone())
      return std::nullopt;
    const bool areBoth = stack[0].isNone() && stack[1].isNone();
    return areBoth == (node->kind() == c10::aten::__is__);
  }
  if (node->outputs().size() != 1 || !isComputable(node, stack))
    return std::nullopt;
  if (node->maybeSchema() && node->maybeSchema()->is_vararg())
    stack.emplace_back(static_cast<int64_t>(node->inputs().size()));
  if (llvm::Error error =
          guardTorchVoid(ExitCode::Other, "computing", [&] { node->getOperation()(stack); })) {
    llvm::consumeError(std::move(error)); // the run will fail as well, if it comes here
    return std::nullopt;
  }
  return stack.size() == 1 ? std::optional(stack.front()) : std::nullopt;
}

void TrainingWalk::visitOperator(Node *node, Call &call, Modes modes) {
  const llvm::ArrayRef<Mode> which = each(modes);
  setUnknown(node, call, modes);
  if (isMessage(node))
    return;
  size_t computed = 0;
  for (const Mode mode : which)
    if (std::optional<c10::IValue> value = compute(node, call, mode)) {
      Fact &fact = call.facts[node->output()][mode];
      fact.isPresent = !value->isNone();
      fact.known = std::move(value);
      ++computed;
    }
  if (computed == which.size())
    return;
  const bool isNumber = !hasEffect(node) && !isRandomOp(node->kind().toQualString()) &&
                        llvm::all_of(node->outputs(), [](const Value *output) {
                          return isNumberOrText(*output->type());
                        });
  if (isNumber) { // what takes it may differ
    const bool areInputsSame = llvm::all_of(node->inputs(), [&](const Value *input) {
      return areSame(call.facts[input][Saved], call.facts[input][Eval]);
    });
    for (const Value *output : node->outputs())
      if (modes == Modes::Both && !areInputsSame && !call.facts[output][Eval].known)
        call.facts[output][Eval].id = ++lastId_;
    return;
  }
  if (modes == Modes::Both)
    compareModes(node, call);
  else
    noteOneSided(node, call, modes);
  if (modes != Modes::OnlyEval &&
      isNormWithoutState(node, [&](Value *value) { return call.facts.at(value)[Saved].known; }))
    found.add(call.path, node->kind().toUnqualString(), TrainingModules::Cause::AnyMode);
  if (isDropout(node))
    for (const Mode mode : which)
      if (draws(node, call, mode) == Draws::Never)
        call.facts[node->output()][mode] = call.facts[node->input(0)][mode];
}

Draws TrainingWalk::draws(Node *node, Call &call, Mode mode) const {
  return drawsWith(node->kind().toQualString(), [&](llvm::StringRef name) -> Argument {
    const Value *input = inputNamed(node, name);
    if (!input)
      return {};
    const std::optional<c10::IValue> &known = call.facts.at(input)[mode].known;
    return known ? argumentOf(*known) : Argument{Argument::State::Unknown, 0};
  });
}

bool TrainingWalk::isActive(Node *node, Call &call, Mode mode) const {
  return isInTrainingMode(node, [&](Value *value) { return call.facts.at(value)[mode].known; });
}

/// An operator that runs in both modes.
void TrainingWalk::compareModes(Node *node, Call &call) {
  const std::string name = node->kind().toUnqualString();
  const bool saved = isActive(node, call, Saved), eval = isActive(node, call, Eval);
  bool differs = saved != eval;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    const Value *input = node->inputs()[i];
    if (areSame(call.facts[input][Saved], call.facts[input][Eval]))
      continue;
    const c10::FunctionSchema *schema = node->maybeSchema();
    const bool isIdle = !saved && !eval && hasSwitch(node) && schema &&
                        i < schema->arguments().size() && isSwitch(schema->arguments()[i].name());
    differs = differs || !isIdle;
  }
  if (differs)
    found.add(call.path, saved ? name : "", TrainingModules::Cause::Flag);
  else if (saved)
    found.add(call.path, name, TrainingModules::Cause::Constant);
  else if (call.isTraining && isTraced(node) && draws(node, call, Saved) == Draws::Always)
    found.add(call.path, name, TrainingModules::Cause::Trace);
}

/// An operator that runs in one mode only. If its result is used, the branch shows it.
void TrainingWalk::noteOneSided(Node *node, Call &call, Modes modes) {
  const Mode mode = each(modes).front();
  if (isActive(node, call, mode) || draws(node, call, mode) == Draws::Always) {
    found.add(call.path, modes == Modes::OnlySaved ? node->kind().toUnqualString() : "",
              TrainingModules::Cause::Flag);
    return;
  }
  const c10::FunctionSchema *schema = node->maybeSchema();
  bool leavesTrace = hasEffect(node) && !schema;
  for (size_t i = 0; schema && i < std::min(schema->arguments().size(), node->inputs().size()); ++i)
    if (const c10::AliasInfo *alias = schema->arguments()[i].alias_info();
        alias && alias->isWrite())
      leavesTrace = leavesTrace || call.facts[node->inputs()[i]][mode].made <= regionStart_;
  if (leavesTrace)
    found.add(call.path, "", TrainingModules::Cause::Flag);
}

} // namespace pipec

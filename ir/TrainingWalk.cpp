#include "ir/TrainingWalk.h"

#include "ir/NodeInfo.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// Texts explain: torch.nn's modules keep in one why they take no fast path, which computes the
/// same.
bool isText(const Value *value) { return value->type()->kind() == c10::TypeKind::StringType; }

bool mayBeNone(const c10::Type &type) {
  return type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::NoneType ||
         type.kind() == c10::TypeKind::AnyType;
}

std::string nameIn(const std::string &holder, const std::string &name) {
  return (holder.empty() ? "" : holder + ".") + name;
}

} // namespace

TrainingWalk::TrainingWalk(const torch::jit::Module &module, const std::string &method,
                           const std::string &path) {
  (void)anyNodeInside(module, [&](Node *node) {
    if (node->kind() == c10::prim::SetAttr)
      assigned_.insert(node->s(c10::attr::name));
    return false;
  });
  auto *code = torch::jit::tryToGraphFunction(module.get_method(method).function());
  if (!code)
    return;
  code->ensure_defined();
  torch::jit::Graph &graph = *code->graph();
  Call call{path, false, {}};
  for (const Value *input : graph.inputs()) {
    const Fact fact = unknown(input);
    call.facts[input] = {fact, fact};
  }
  Fact self;
  self.known = module._ivalue();
  self.isPresent = true;
  self.path = path;
  call.facts[graph.inputs()[0]] = {self, self};
  call.isTraining = isTraining(*self.known);
  visit(*graph.block(), call, Modes::Both);
  for (const Value *output : graph.outputs())
    if (!areSame(call.facts[output][Saved], call.facts[output][Eval]))
      found.add(path, "", TrainingModules::Cause::Flag);
}

bool TrainingWalk::isTraining(const c10::IValue &object) {
  const auto type = object.toObjectRef().type();
  const auto slot = type->findAttributeSlot("training");
  if (!type->is_module() || !slot)
    return false;
  const c10::IValue flag = object.toObjectRef().getSlot(*slot);
  return flag.isBool() && flag.toBool();
}

TrainingWalk::Fact TrainingWalk::unknown(const Value *value) {
  Fact fact;
  fact.id = fact.made = ++lastId_;
  fact.isPresent = !mayBeNone(*value->type());
  return fact;
}

llvm::ArrayRef<TrainingWalk::Mode> TrainingWalk::each(Modes modes) {
  static constexpr Mode all[] = {Saved, Eval};
  const llvm::ArrayRef<Mode> both(all);
  return modes == Modes::Both ? both : both.slice(modes == Modes::OnlySaved ? 0 : 1, 1);
}

void TrainingWalk::setUnknown(Node *node, Call &call, Modes modes) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  for (const Value *output : node->outputs()) {
    Fact fact = unknown(output);
    const bool isNew = schema && output->offset() < schema->returns().size() &&
                       !schema->returns()[output->offset()].alias_info();
    for (const Mode mode : each(modes)) {
      if (!isNew)
        for (const Value *input : node->inputs())
          if (!isNumberOrText(*input->type()))
            fact.made = std::min(fact.made, call.facts[input][mode].made);
      call.facts[output][mode] = fact;
    }
  }
}

void TrainingWalk::visit(Block &block, Call &call, Modes modes) {
  for (Node *node : block.nodes())
    visit(node, call, modes);
}

void TrainingWalk::visit(Node *node, Call &call, Modes modes) {
  if (node->kind() == c10::prim::Constant) {
    Fact fact = unknown(node->output());
    fact.known = torch::jit::toIValue(node->output());
    fact.isPresent = !fact.known || !fact.known->isNone();
    call.facts[node->output()] = {fact, fact};
  } else if (node->kind() == c10::prim::GetAttr) {
    readAttribute(node, call, modes);
  } else if (node->kind() == c10::prim::If) {
    visitIf(node, call, modes);
  } else if (node->kind() == c10::prim::unchecked_cast) {
    for (const Mode mode : each(modes)) {
      Fact fact = call.facts[node->input()][mode];
      fact.isPresent = fact.isPresent || !mayBeNone(*node->output()->type());
      call.facts[node->output()][mode] = fact;
    }
  } else if (node->kind() == c10::prim::TupleUnpack &&
             node->input()->node()->kind() == c10::prim::TupleConstruct) {
    for (const Value *output : node->outputs())
      call.facts[output] = call.facts[node->input()->node()->input(output->offset())];
  } else if (!node->blocks().empty()) {
    visitBlocks(node, call, modes);
  } else if (!visitCall(node, call, modes)) {
    visitOperator(node, call, modes);
  }
}

void TrainingWalk::readAttribute(Node *node, Call &call, Modes modes) {
  const std::string &name = node->s(c10::attr::name);
  const Value *output = node->output();
  setUnknown(node, call, modes);
  for (const Mode mode : each(modes)) {
    const Fact object = call.facts[node->input()][mode];
    Fact &fact = call.facts[output][mode];
    fact.made = 0;
    if (!object.known || !object.known->isObject() || assigned_.count(name))
      continue;
    fact.known = object.known->toObjectRef().getAttr(name);
    fact.isPresent = !fact.known->isNone();
    if (fact.known->isObject())
      fact.path = nameIn(object.path, name);
    if (mode == Eval && name == "training" && isTraining(*object.known))
      fact.known = false;
  }
}

/// The block that runs; nothing: both may.
static std::optional<size_t> takenBlock(const std::optional<c10::IValue> &condition) {
  return condition && condition->isBool() ? std::optional<size_t>(condition->toBool() ? 0 : 1)
                                          : std::nullopt;
}

void TrainingWalk::visitIf(Node *node, Call &call, Modes modes) {
  const Facts condition = call.facts[node->input()];
  auto visitTaken = [&](Modes which, Mode mode) {
    const std::optional<size_t> taken = takenBlock(condition[mode].known);
    for (size_t b = 0; b < 2; ++b)
      if (!taken || *taken == b)
        visit(*node->blocks()[b], call, which);
  };
  const bool isOne = modes != Modes::Both || areSame(condition[Saved], condition[Eval]);
  if (isOne) {
    visitTaken(modes, each(modes).front());
  } else {
    if (!condition[Saved].known && !condition[Eval].known)
      found.add(call.path, "", TrainingModules::Cause::Flag);
    regionStart_ = lastId_;
    visitTaken(Modes::OnlySaved, Saved);
    visitTaken(Modes::OnlyEval, Eval);
  }
  for (Value *output : node->outputs()) {
    Facts &facts = call.facts[output];
    const Fact merged = unknown(output);
    bool isMerged = false, isEqual = true;
    const Value *results[] = {node->blocks()[0]->outputs()[output->offset()],
                              node->blocks()[1]->outputs()[output->offset()]};
    for (const Mode mode : each(modes)) {
      if (const auto taken = takenBlock(condition[mode].known)) {
        facts[mode] = call.facts[results[*taken]][mode];
        continue;
      }
      const Fact &first = call.facts[results[0]][mode], &second = call.facts[results[1]][mode];
      facts[mode] = areSame(first, second) ? first : merged;
      facts[mode].isPresent = first.isPresent && second.isPresent;
      facts[mode].made = std::min(first.made, second.made);
      isMerged = true;
    }
    if (modes != Modes::Both || !output->hasUses())
      continue;
    if (isMerged)
      for (const Value *result : results)
        isEqual =
            isEqual && (!isOne || areSame(call.facts[result][Saved], call.facts[result][Eval]));
    const bool isNumber = isNumberOrText(*output->type());
    if (isEqual && (isNumber || areSame(facts[Saved], facts[Eval])))
      continue;
    if (!isText(output))
      found.add(call.path, "", TrainingModules::Cause::Flag);
    facts = {merged, merged};
  }
}

void TrainingWalk::visitBlocks(Node *node, Call &call, Modes modes) {
  auto compare = [&](llvm::ArrayRef<Value *> values) {
    for (const Value *value : values)
      if (modes == Modes::Both && !isText(value) &&
          !areSame(call.facts[value][Saved], call.facts[value][Eval]))
        found.add(call.path, "", TrainingModules::Cause::Flag);
  };
  compare(node->inputs().vec());
  for (Block *block : node->blocks()) {
    for (const Value *input : block->inputs()) {
      Fact fact = unknown(input);
      fact.made = 0;
      for (const Mode mode : each(modes))
        call.facts[input][mode] = fact;
    }
    visit(*block, call, modes);
    compare(block->outputs().vec());
  }
  setUnknown(node, call, modes);
}

/// False: the code of the call is not known.
bool TrainingWalk::visitCall(Node *node, Call &call, Modes modes) {
  torch::jit::Function *function = nullptr;
  std::vector<Value *> arguments = node->inputs().vec();
  Call callee{call.path, call.isTraining, {}};
  if (node->kind() == c10::prim::CallFunction) {
    const auto type = arguments.front()->type()->cast<c10::FunctionType>();
    function = type ? type->function() : nullptr;
    arguments.erase(arguments.begin());
  } else if (node->kind() == c10::prim::CallMethod) {
    const Fact &object = call.facts[arguments.front()][each(modes).front()];
    if (object.known && object.known->isObject()) {
      function = object.known->toObjectRef().type()->findMethod(node->s(c10::attr::name));
      callee.path = object.path;
      callee.isTraining = isTraining(*object.known);
    }
  }
  auto *code = function ? torch::jit::tryToGraphFunction(*function) : nullptr;
  if (!code)
    return false;
  code->ensure_defined();
  torch::jit::Graph &graph = *code->graph();
  if (graph.inputs().size() != arguments.size() || graph.outputs().size() != node->outputs().size())
    return false;
  for (size_t i = 0; i < arguments.size(); ++i)
    callee.facts[graph.inputs()[i]] = call.facts[arguments[i]];
  visit(*graph.block(), callee, modes);
  for (size_t i = 0; i < node->outputs().size(); ++i)
    for (const Mode mode : each(modes))
      call.facts[node->outputs()[i]][mode] = callee.facts[graph.outputs()[i]][mode];
  return true;
}

} // namespace pipec

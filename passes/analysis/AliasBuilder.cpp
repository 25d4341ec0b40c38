#include "passes/analysis/AliasBuilder.h"

#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <map>

namespace pipec {

void AliasBuilder::build(const Model &model) {
  seedInputs(model);
  visitBlock(*model.graph->block(), true);
  for (const Value *output : model.graph->outputs())
    (void)give(const_cast<Value *>(output));
  joinState(model);
  collect();
  sumTouches();
  markReturned(model.graph->outputs());
}

std::optional<MemoryGraph::Location> AliasBuilder::locate(const Value *value) const {
  auto found = locations_.find(value);
  if (found == locations_.end())
    return std::nullopt;
  return found->second;
}

std::optional<MemoryGraph::Location> AliasBuilder::give(Value *value) {
  if (std::optional<Location> known = locate(value))
    return known;
  if (!hasMemory(*value->type()))
    return std::nullopt;
  Location location = memory_.fresh();
  locations_[value] = location;
  order_.push_back(value);
  definedAt_.push_back(position_);
  return location;
}

void AliasBuilder::giveAll(at::ArrayRef<Value *> values) {
  for (Value *value : values)
    (void)give(value);
}

void AliasBuilder::giveContents(Location location, const c10::Type &type, bool attribute) {
  (attribute ? attributes_ : userInputs_).push_back(location);
  if (!mayHold(type))
    return;
  if (type.containedTypes().empty()) { // an object or Any: its contents are unknown
    memory_.collapse(location);
    return;
  }
  for (const c10::TypePtr &contained : type.containedTypes()) {
    if (type.kind() == c10::TypeKind::OptionalType || type.kind() == c10::TypeKind::UnionType)
      giveContents(location, *contained, attribute);
    else if (hasMemory(*contained))
      giveContents(memory_.element(location), *contained, attribute);
  }
}

void AliasBuilder::seedInputs(const Model &model) {
  at::ArrayRef<Value *> inputs = model.graph->inputs();
  const size_t arguments = inputs.size() - std::min(inputs.size(), model.attributes.size());
  std::map<int64_t, Location> storages;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::optional<Location> location = give(inputs[i]);
    if (!location)
      continue;
    const bool attribute = i >= arguments;
    giveContents(*location, *inputs[i]->type(), attribute);
    if (!attribute)
      continue;
    const int64_t storage = model.attributes[i - arguments].storage;
    if (storage < 0)
      continue;
    auto [known, isNew] = storages.try_emplace(storage, *location);
    if (!isNew)
      memory_.unite(known->second, *location);
  }
}

/// The next run reads an assigned value as that attribute, so it is memory of the attribute from
/// the moment it is made.
void AliasBuilder::joinState(const Model &model) {
  const size_t leaves = model.signature.leaves.size(), arguments = model.argumentCount();
  at::ArrayRef<Value *> inputs = model.graph->inputs(), outputs = model.graph->outputs();
  for (size_t i = 0; i < model.stateOutputs.size(); ++i)
    uniteValues(outputs[leaves + i], inputs[arguments + model.stateOutputs[i]]);
}

void AliasBuilder::uniteValues(Value *a, Value *b) {
  std::optional<Location> left = give(a), right = give(b);
  if (left && right)
    memory_.unite(*left, *right);
}

void AliasBuilder::read(const Value *value) {
  if (std::optional<Location> location = locate(value))
    touches_.push_back({*location, position_, nullptr, depth_ > 0, false});
}

void AliasBuilder::write(Location location, Node *writer, bool isLate) {
  touches_.push_back({location, position_, writer, depth_ > 0, isLate});
}

void AliasBuilder::noteEffect(Node *node, bool unknown) {
  result_.effects_.push_back({node, position_, unknown});
}

void AliasBuilder::visitBlock(Block &block, bool topLevel) {
  for (Node *node : block.nodes()) {
    if (topLevel)
      ++position_;
    visit(node);
  }
  if (topLevel)
    return;
  for (const Value *output : block.outputs())
    read(output);
}

void AliasBuilder::visit(Node *node) {
  for (const Value *input : node->inputs())
    read(input);
  if (visitStructural(node))
    return;
  const torch::jit::Operator *op = node->maybeOperator();
  if (!op || op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE) {
    visitUnknown(node);
    return;
  }
  visitSchema(node, op->schema());
}

bool AliasBuilder::visitStructural(Node *node) {
  switch (node->kind()) {
  case c10::prim::If:
    visitIf(node);
    return true;
  case c10::prim::Loop:
    visitLoop(node);
    return true;
  case c10::prim::Constant:
    for (Value *output : node->outputs()) {
      if (std::optional<Location> location = give(output))
        giveContents(*location, *output->type(), true);
    }
    return true;
  case c10::prim::ListConstruct:
  case c10::prim::TupleConstruct:
  case c10::prim::DictConstruct:
  case c10::prim::CreateObject:
  case c10::prim::Uninitialized:
    visitConstruct(node);
    return true;
  case c10::prim::ListUnpack:
  case c10::prim::TupleUnpack:
  case c10::prim::TupleIndex:
  case c10::prim::TupleSlice:
  case c10::prim::GetAttr:
    visitExtract(node);
    return true;
  case c10::prim::SetAttr:
    if (std::optional<Location> object = give(node->input(0))) {
      if (std::optional<Location> held = give(node->input(1)))
        memory_.hold(*object, *held);
      write(*object, node);
    }
    return true;
  case c10::prim::unchecked_cast:
    uniteValues(node->input(0), node->output());
    return true;
  case c10::prim::isinstance:
  case c10::aten::format:
    giveAll(node->outputs());
    return true;
  case c10::prim::Print:
  case c10::prim::RaiseException:
  case c10::aten::warn:
    noteEffect(node, false);
    return true;
  default:
    return false;
  }
}

void AliasBuilder::visitIf(Node *node) {
  ++depth_;
  for (Block *block : node->blocks())
    visitBlock(*block, false);
  --depth_;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    for (Block *block : node->blocks())
      uniteValues(node->outputs()[i], block->outputs()[i]);
  }
}

void AliasBuilder::visitLoop(Node *node) {
  Block *body = node->blocks()[0];
  // Inputs: trip count, first condition, carried...; body inputs: iteration, carried...; body
  // outputs: condition, carried...
  for (size_t i = 0; i < node->outputs().size(); ++i)
    uniteValues(node->inputs()[i + 2], body->inputs()[i + 1]);
  giveAll(body->inputs());
  ++depth_;
  visitBlock(*body, false);
  --depth_;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    uniteValues(body->inputs()[i + 1], body->outputs()[i + 1]);
    uniteValues(node->outputs()[i], body->inputs()[i + 1]);
  }
}

void AliasBuilder::visitConstruct(Node *node) {
  for (Value *output : node->outputs()) {
    std::optional<Location> location = give(output);
    if (!location)
      continue;
    for (Value *input : node->inputs()) {
      if (std::optional<Location> held = give(input))
        memory_.hold(*location, *held);
    }
  }
}

void AliasBuilder::visitExtract(Node *node) {
  std::optional<Location> container = give(node->input(0));
  for (Value *output : node->outputs()) {
    std::optional<Location> location = give(output);
    if (!location || !container)
      continue;
    if (node->kind() == c10::prim::TupleSlice)
      memory_.hold(*location, memory_.element(*container));
    else
      memory_.unite(*location, memory_.element(*container));
    read(output); // later writes belong to the container from here on
  }
}

void AliasBuilder::visitUnknown(Node *node) {
  noteEffect(node, true);
  std::vector<Value *> touched(node->inputs().begin(), node->inputs().end());
  for (Block *block : node->blocks()) { // the relation of its inputs and outputs to ours is unknown
    giveAll(block->inputs());
    ++depth_;
    visitBlock(*block, false);
    --depth_;
    touched.insert(touched.end(), block->inputs().begin(), block->inputs().end());
    touched.insert(touched.end(), block->outputs().begin(), block->outputs().end());
  }
  touched.insert(touched.end(), node->outputs().begin(), node->outputs().end());
  std::optional<Location> all;
  for (Value *value : touched) {
    std::optional<Location> location = give(value);
    if (!location)
      continue;
    if (all)
      memory_.unite(*all, *location);
    all = location;
  }
  if (!all)
    return;
  memory_.collapse(*all);
  write(*all, node);
}

} // namespace pipec

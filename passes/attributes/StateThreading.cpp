#include "passes/attributes/StateThreading.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using State = std::map<std::string, Value *>;

/// Paths that a block writes, with the types that their classes declare.
using Written = std::map<std::string, c10::TypePtr>;

std::string pathOf(Node *node, const ModulePaths &paths, bool &known) {
  return attributePath(node->input(0), node->s(c10::attr::name), paths, known);
}

c10::TypePtr declaredType(Node *access) {
  return access->input(0)->type()->expect<c10::ClassType>()->getAttribute(
      access->s(c10::attr::name));
}

void writtenIn(Block &block, const ModulePaths &paths, const State &current, Written &written) {
  for (Node *node : block.nodes()) {
    bool known = false;
    if (node->kind() == c10::prim::SetAttr)
      if (std::string path = pathOf(node, paths, known); known && current.count(path))
        written[path] = declaredType(node);
    for (Block *inner : node->blocks())
      writtenIn(*inner, paths, current, written);
  }
}

llvm::Error threadIf(Node *node, const ModulePaths &paths, State &current) {
  Written written;
  for (Block *branch : node->blocks())
    writtenIn(*branch, paths, current, written);
  std::vector<State> exits;
  for (Block *branch : node->blocks()) {
    State inside = current;
    TRY(threadState(*branch, paths, inside));
    exits.push_back(std::move(inside));
  }
  for (const auto &[path, type] : written) {
    for (size_t i = 0; i < exits.size(); ++i)
      node->blocks()[i]->registerOutput(exits[i][path]);
    Value *merged = node->addOutput();
    merged->setType(type);
    current[path] = merged;
  }
  return llvm::Error::success();
}

llvm::Error threadLoop(Node *node, const ModulePaths &paths, State &current) {
  Block *body = node->blocks()[0];
  Written written;
  writtenIn(*body, paths, current, written);
  State inside = current;
  for (const auto &[path, type] : written) {
    node->addInput(current[path]);
    Value *carried = body->addInput();
    carried->setType(type);
    inside[path] = carried;
  }
  TRY(threadState(*body, paths, inside));
  for (const auto &[path, type] : written) {
    body->registerOutput(inside[path]);
    Value *result = node->addOutput();
    result->setType(type);
    current[path] = result;
  }
  return llvm::Error::success();
}

/// Whether every use of an object reads or writes its attributes: it is not stored, returned,
/// selected by a branch or passed to another operator.
bool isOnlyItsAttributes(Value *object) {
  return llvm::all_of(object->uses(), [](const torch::jit::Use &use) {
    return use.offset == 0 &&
           (use.user->kind() == c10::prim::GetAttr || use.user->kind() == c10::prim::SetAttr);
  });
}

/// Objects that the block, or one inside it, makes and that can become values.
void objectsIn(Block &block, std::vector<Node *> &objects) {
  for (Node *node : block.nodes()) {
    if (node->kind() == c10::prim::CreateObject && isOnlyItsAttributes(node->output()))
      objects.push_back(node);
    for (Block *inner : node->blocks())
      objectsIn(*inner, objects);
  }
}

bool namesObject(const c10::TypePtr &type) {
  if (type->kind() == c10::TypeKind::TupleType)
    return llvm::any_of(type->containedTypes(), namesObject);
  return type->kind() == c10::TypeKind::ClassType && !type->is_module();
}

/// The value behind a visible tuple or a test for None; null: there is neither.
Value *behind(Node *node, size_t output) {
  switch (node->kind()) {
  case c10::prim::unchecked_cast:
  case c10::prim::unchecked_unwrap_optional:
  case c10::aten::_unwrap_optional:
    return node->input(0)->type()->kind() == c10::TypeKind::ClassType ? node->input(0) : nullptr;
  case c10::prim::TupleUnpack:
  case c10::prim::TupleIndex:
    break;
  default:
    return nullptr;
  }
  Node *tuple = node->input(0)->node();
  if (tuple->kind() != c10::prim::TupleConstruct)
    return nullptr;
  const int64_t size = static_cast<int64_t>(tuple->inputs().size());
  int64_t index = static_cast<int64_t>(output);
  if (node->kind() == c10::prim::TupleIndex) {
    std::optional<c10::IValue> at = torch::jit::toIValue(node->input(1));
    index = at && at->isInt() ? at->toInt() : size;
    index += index < 0 ? size : 0;
  }
  return index >= 0 && index < size ? tuple->input(index) : nullptr;
}

/// An object that is taken out of a tuple, or checked for None, is the same object: the uses of
/// both values are uses of one.
void followObjects(Block &block) {
  std::vector<Node *> tuples;
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node *node = *it;
    ++it;
    for (Block *inner : node->blocks())
      followObjects(*inner);
    if (node->kind() == c10::prim::TupleConstruct && namesObject(node->output()->type()))
      tuples.push_back(node);
    if (node->inputs().empty() || !namesObject(node->input(0)->type()))
      continue;
    bool all = !node->outputs().empty();
    for (size_t i = 0; i < node->outputs().size(); ++i)
      if (Value *value = behind(node, i))
        node->outputs()[i]->replaceAllUsesWith(value);
      else
        all = false;
    if (all)
      node->destroy();
  }
  for (Node *tuple : llvm::reverse(tuples))
    if (!tuple->hasUses())
      tuple->destroy();
}

/// Before anything is assigned, the attributes have no value.
llvm::Error becomeValues(Node *object) {
  auto type = object->output()->type()->expect<c10::ClassType>();
  State current;
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    Node *nothing = object->owningGraph()->createUninitialized(type->getAttribute(i));
    current[type->getAttributeName(i)] =
        nothing->copyMetadata(object)->insertBefore(object)->output();
  }
  const ModulePaths paths = {{object->output(), ""}};
  TRY(threadState(*object->owningBlock(), paths, current));
  object->destroy();
  return llvm::Error::success();
}

} // namespace

llvm::Error lowerLocalObjects(torch::jit::Graph &graph) {
  // An object that is an attribute of another is one only of its own attributes after the other.
  for (;;) {
    followObjects(*graph.block());
    std::vector<Node *> objects;
    objectsIn(*graph.block(), objects);
    if (objects.empty())
      return llvm::Error::success();
    for (Node *object : objects)
      TRY(becomeValues(object));
  }
}

std::string attributePath(Value *object, const std::string &name, const ModulePaths &paths,
                          bool &known) {
  auto found = paths.find(object);
  known = found != paths.end();
  if (!known)
    return "";
  return found->second.empty() ? name : found->second + "." + name;
}

llvm::Error threadState(Block &block, const ModulePaths &paths, State &current) {
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node *node = *it;
    ++it;
    if (node->kind() == c10::prim::If || node->kind() == c10::prim::Loop) {
      TRY(node->kind() == c10::prim::If ? threadIf(node, paths, current)
                                        : threadLoop(node, paths, current));
      continue;
    }
    bool known = false;
    if (node->kind() == c10::prim::GetAttr) {
      auto value = current.find(pathOf(node, paths, known));
      if (!known || value == current.end())
        continue;
      node->output()->replaceAllUsesWith(value->second);
      node->destroy();
    } else if (node->kind() == c10::prim::SetAttr) {
      auto value = current.find(pathOf(node, paths, known));
      if (!known || value == current.end())
        continue;
      value->second = node->input(1);
      node->destroy();
    }
  }
  return llvm::Error::success();
}

} // namespace pipec

// Whether the method fills or changes a container that an attribute holds, through tuples, branches
// and loops too.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

struct MutatedContainers {
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// Containers that some operator of the method fills or changes must stay one object: they cannot
  /// be constants.
  static bool isMutated(Value *value) {
    std::vector<Value *> values = {value};
    std::set<Value *> seen = {value};
    for (size_t i = 0; i < values.size(); ++i)
      for (const torch::jit::Use &use : values[i]->uses()) {
        if (isWrittenBy(use))
          return true;
        if (isContainer(value))
          for (Value *other : handedOnBy(use))
            if (isContainer(other) && seen.insert(other).second)
              values.push_back(other);
      }
    return false;
  }

private:
  static bool isContainer(const Value *value) {
    switch (value->type()->kind()) {
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::OptionalType:
      return true;
    default:
      return false;
    }
  }

  /// Values that are, or hold, the same container as the user's input there.
  static std::vector<Value *> handedOnBy(const torch::jit::Use &use) {
    Node *user = use.user;
    const bool leaves = user->kind() == c10::prim::Return && user->owningBlock()->owningNode();
    Node *owner = leaves ? user->owningBlock()->owningNode() : user;
    switch (owner->kind()) {
    case c10::prim::If:
      return leaves ? std::vector<Value *>{owner->outputs()[use.offset]} : std::vector<Value *>();
    case c10::prim::Loop: {
      const size_t first = leaves ? 1 : 2; // behind the condition, and the count
      if (use.offset < first)
        return {};
      const size_t slot = use.offset - first;
      return {owner->outputs()[slot], owner->blocks()[0]->inputs()[slot + 1]};
    }
    case c10::prim::TupleConstruct:
    case c10::prim::TupleUnpack:
    case c10::prim::TupleIndex:
    case c10::prim::TupleSlice:
    case c10::prim::unchecked_cast:
    case c10::prim::unchecked_unwrap_optional:
    case c10::aten::_unwrap_optional:
      return user->outputs().vec();
    default:
      return {};
    }
  }

  static bool isWrittenBy(const torch::jit::Use &use) {
    const c10::FunctionSchema *schema = use.user->maybeSchema();
    if (!schema || use.offset >= schema->arguments().size())
      return false;
    const c10::AliasInfo *alias = schema->arguments()[use.offset].alias_info();
    return alias && alias->isWrite();
  }
};

} // namespace pipec

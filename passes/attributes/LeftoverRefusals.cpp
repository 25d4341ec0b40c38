#include "passes/attributes/LeftoverRefusals.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Try.h"
#include "passes/attributes/TupleClasses.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

namespace {

bool isAccess(const torch::jit::Use &use) {
  return use.user->kind() == c10::prim::GetAttr || use.user->kind() == c10::prim::SetAttr;
}

/// A node that uses a module, or a submodule of it, other than to read it.
Node *userOfModule(Value *module) {
  Node *user = module->uses()[0].user;
  const bool reads = user->kind() == c10::prim::GetAttr && user->output()->type()->is_module();
  return reads && user->hasUses() ? userOfModule(user->output()) : user;
}

} // namespace

llvm::Error refuseObjects(Block &block, const ModulePaths &paths, const TupleClasses &tuples) {
  for (Node *node : block.nodes()) {
    if (isAccess({node, 0}) && !node->input(0)->type()->is_module())
      return refuseWith(Refusal::ObjectAttribute, describeNode(node), node->s(c10::attr::name),
                        node->input(0)->type()->annotation_str(),
                        tuples.reasonToKeep(node->input(0)->type()));
    if (node->kind() == c10::prim::GetAttr && paths.count(node->output()) &&
        !node->output()->type()->is_module() && node->hasUses())
      return refuseWith(Refusal::ObjectAttribute, describeNode(node->output()->uses()[0].user),
                        node->s(c10::attr::name), node->output()->type()->annotation_str(),
                        tuples.reasonToKeep(node->output()->type()));
    // An object without attributes; others are refused for their attributes.
    if (node->kind() == c10::prim::CreateObject && node->hasUses() &&
        llvm::none_of(node->output()->uses(), isAccess))
      return refuseWith(Refusal::ObjectAttribute, describeNode(node->output()->uses()[0].user),
                        "what is", node->output()->type()->annotation_str(),
                        tuples.reasonToKeep(node->output()->type()));
    for (Block *inner : node->blocks())
      TRY(refuseObjects(*inner, paths, tuples));
  }
  return llvm::Error::success();
}

llvm::Error refuseModuleAsValue(Value *module) {
  if (module->uses().empty())
    return llvm::Error::success();
  return refuseWith(Refusal::ModuleAsValue, describeNode(userOfModule(module)));
}

llvm::Error refuseAttributes(const std::vector<Attribute> &attributes) {
  for (const Attribute &attribute : attributes) {
    if (attribute.value.isTensor() && attribute.value.toTensor().defined() &&
        attribute.value.toTensor().is_meta())
      return refuseWith(Refusal::MetaTensor, attribute.name);
    const std::string first = llvm::StringRef(attribute.name).split('.').first.str();
    if (first == "forward" || first == "pipec_forward")
      return refuseWith(Refusal::ReservedName, attribute.name, first);
  }
  return llvm::Error::success();
}

} // namespace pipec

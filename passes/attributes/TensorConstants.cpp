#include "passes/attributes/TensorConstants.h"

#include "ir/Model.h"
#include "ir/TensorKey.h"
#include "ir/support/Llvm.h"
#include "passes/attributes/ModuleEntries.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

class TensorConstants {
public:
  TensorConstants(const Model &model,
                  llvm::function_ref<torch::jit::Value *(const ModuleEntry &)> add)
      : model_(model), add_(add) {}

  void lower(torch::jit::Block &block) {
    for (auto it = block.nodes().begin(); it != block.nodes().end();) {
      torch::jit::Node *node = *it;
      ++it;
      for (torch::jit::Block *inner : node->blocks())
        lower(*inner);
      if (node->kind() != c10::prim::Constant ||
          node->output()->type()->kind() != c10::TypeKind::TensorType)
        continue;
      std::optional<c10::IValue> value = torch::jit::toIValue(node->output());
      if (!value || !value->isTensor() || !value->toTensor().defined())
        continue;
      TensorKey key = keyOf(value->toTensor());
      auto known = constantOf_.find(key);
      if (known == constantOf_.end()) {
        if (constantOf_.empty())
          constants_ = freeModuleName("constants");
        ModuleEntry entry{constants_ + "." + std::to_string(constantOf_.size()), *value,
                          c10::TensorType::get(), AttributeKind::Constant};
        known = constantOf_.emplace(key, add_(entry)).first;
      }
      node->output()->replaceAllUsesWith(known->second);
      node->destroy();
    }
  }

private:
  /// The name, with underscores added until it is no name of a submodule with weights.
  std::string freeModuleName(std::string name) const {
    while (llvm::any_of(model_.attributes, [&](const Attribute &attribute) {
      return startsWith(attribute.name, name + ".");
    }))
      name += "_";
    return name;
  }

  const Model &model_;
  llvm::function_ref<torch::jit::Value *(const ModuleEntry &)> add_;
  std::map<TensorKey, torch::jit::Value *> constantOf_;
  std::string constants_; // the module that they are said to belong to
};

} // namespace

void lowerTensorConstants(const Model &model, torch::jit::Block &block,
                          llvm::function_ref<torch::jit::Value *(const ModuleEntry &)> add) {
  TensorConstants(model, add).lower(block);
}

} // namespace pipec

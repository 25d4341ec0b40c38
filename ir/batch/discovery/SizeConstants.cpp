#include "ir/batch/discovery/SizeConstants.h"

#include "ir/NodeInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

std::vector<int64_t> sizeConstantsIn(const torch::jit::Module &module) {
  static const llvm::StringSet<> kOperators = {
      "gt",  "lt",    "ge",    "le",           "eq",       "ne",    "min",
      "max", "slice", "split", "unsafe_split", "floordiv", "clamp", "topk"};
  std::vector<int64_t> found;
  (void)anyNodeInside(module, [&](torch::jit::Node *node) {
    const bool isCode = node->kind().is_aten() || node->kind().is_prim();
    if (isCode && kOperators.contains(node->kind().toUnqualString()))
      for (torch::jit::Value *input : node->inputs())
        if (const std::optional<int64_t> constant = constantInt(input))
          found.push_back(*constant);
    return false;
  });
  llvm::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

} // namespace pipec

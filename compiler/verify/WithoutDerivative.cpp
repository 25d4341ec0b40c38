#include "compiler/verify/WithoutDerivative.h"

#include "ir/NodeInfo.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

/// The operator's name without its namespace in one of
///   slice_scatter does not support automatic differentiation for outputs with complex dtype.
///   derivative for aten::copy is not implemented
///   the derivative for 'target' is not implemented
/// Empty: the message is none of them.
llvm::StringRef operatorIn(llvm::StringRef message) {
  constexpr llvm::StringLiteral kOfDtype = " does not support automatic differentiation";
  constexpr llvm::StringLiteral kBefore = "derivative for ", kAfter = " is not implemented";
  llvm::StringRef name;
  if (size_t end = message.find(kOfDtype); end != llvm::StringRef::npos) {
    name = message.take_front(end);
    name = name.drop_front(name.find_last_of(" \n") + 1);
  } else if (size_t start = message.find(kBefore); start != llvm::StringRef::npos) {
    name = message.drop_front(start + kBefore.size());
    name = name.take_front(name.find(kAfter)).trim('\'');
  }
  return name.drop_front(name.rfind(':') + 1);
}

} // namespace

std::vector<std::string> withoutDerivative(llvm::StringRef message, const StagedModel &stages) {
  const llvm::StringRef name = operatorIn(message);
  std::vector<std::string> found;
  if (name.empty())
    return found;
  for (const Stage &stage : stages.stages)
    anyNodeInside(stage.graph->block(), [&](torch::jit::Node *node) {
      if (name == node->kind().toUnqualString())
        if (std::string text = describeNode(node); !llvm::is_contained(found, text))
          found.push_back(std::move(text));
      return false;
    });
  return found;
}

} // namespace pipec

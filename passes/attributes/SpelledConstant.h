// The value of an attribute as nodes of the graph.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <string>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Makes nodes at the insertion point for the value of attribute `path`. `read` is the node that
/// reads the attribute, or its substitute. Lists, tuples and dicts are built from their elements,
/// because a constant of such a type has no text that parses. `valueOf` gives the value that stands
/// for a tensor; without it a tensor is a constant. Errors: Unsupported if the value cannot be a
/// constant.
llvm::Expected<torch::jit::Value *>
spelledConstant(const c10::IValue &value, const c10::TypePtr &type, const std::string &path,
                torch::jit::Node *read,
                llvm::function_ref<torch::jit::Value *(const at::Tensor &)> valueOf = nullptr);

} // namespace pipec

// A value that an attribute holds, as nodes of the graph.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

#include <string>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Nodes at the insertion point that make the value of attribute `path`, which `read` reads, or
/// stands for the read of. Lists, tuples and dicts are spelled out: a constant of such a type has
/// no text that parses. Errors: Unsupported when the value has no constant.
llvm::Expected<torch::jit::Value *> spelledConstant(const c10::IValue &value,
                                                    const c10::TypePtr &type,
                                                    const std::string &path,
                                                    torch::jit::Node *read);

} // namespace pipec

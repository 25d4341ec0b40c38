// The signature of a method as its schema has it.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/function_schema.h>

namespace pipec {

/// Inputs (without `self`) with names, types and defaults; batch dimensions and leaves are not
/// known yet: the result is one leaf.
Signature signatureOf(const c10::FunctionSchema &schema, const std::string &method);

/// Whether the result is made of what outputs and values files can hold, as far as its type tells.
/// Errors: Unsupported, naming `where`.
llvm::Error checkResult(const c10::FunctionSchema &schema, const std::string &where);

/// Sets the batch dimensions that a user chose by name (nullopt: given whole to every micro-batch)
/// and says which inputs have one now. Errors: Usage for an unknown argument, naming those that
/// exist.
llvm::Expected<std::vector<bool>>
applyBatchDims(Signature &signature,
               const std::vector<std::pair<std::string, std::optional<int64_t>>> &dims);

} // namespace pipec

// The signature of a method, taken from its schema.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/function_schema.h>

namespace pipec {

/// The inputs (without `self`) with names, types and defaults. Batch dimensions and leaves are not
/// known yet, so the result is a single leaf.
Signature signatureOf(const c10::FunctionSchema &schema, const std::string &method);

/// Checks that outputs and values files can hold the result, as far as its type tells. Errors:
/// Unsupported, naming `where`.
llvm::Error checkResult(const c10::FunctionSchema &schema, const std::string &where);

/// Sets the batch dimensions that a user chose by name (nullopt: every micro-batch gets the whole
/// input). Returns for each input whether the user chose its dimension. Errors: Usage for an
/// unknown argument, naming those that exist.
llvm::Expected<std::vector<bool>>
applyBatchDims(Signature &signature,
               const std::vector<std::pair<std::string, std::optional<int64_t>>> &dims);

} // namespace pipec

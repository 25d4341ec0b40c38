// The signature of a method as its schema has it.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/function_schema.h>

namespace pipec {

/// Inputs (without `self`) with names, types and defaults; batch dimensions and leaves are not
/// known yet: the result is one leaf.
Signature signatureOf(const c10::FunctionSchema &schema, const std::string &method);

} // namespace pipec

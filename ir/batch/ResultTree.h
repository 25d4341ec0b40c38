// The tree of a model's result, read from a value.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Sets `signature.outputs` and one leaf per tensor or plain value of `result`. Tuples, lists and
/// dicts with string keys are nodes; leaves are numbered depth first. An empty list or dict is a
/// leaf. Merge rules do not change.
void describeResult(Signature &signature, const c10::IValue &result);

/// Lists and dicts of `signature.outputs` whose size or keys differ in `result` become one leaf
/// each, which is returned as a list of the micro-batches' values. The other leaves keep their
/// rules. Returns whether there were any.
bool agreeWithResult(Signature &signature, const c10::IValue &result);

} // namespace pipec

// The tree of a model's result, read off a value.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Sets `signature.outputs` and one leaf per tensor or plain value of `result`: tuples, lists and
/// dicts with string keys are nodes, leaves are numbered depth first. Merge rules are not touched.
/// An empty list or dict is a leaf.
void describeResult(Signature &signature, const c10::IValue &result);

} // namespace pipec

// The tree of a model's result, read off a value.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Sets `signature.outputs` and one leaf per tensor or plain value of `result`: tuples, lists and
/// dicts with string keys are nodes, leaves are numbered depth first. Merge rules are not touched.
/// An empty list or dict is a leaf.
void describeResult(Signature &signature, const c10::IValue &result);

/// Lists and dicts of `signature.outputs` that are of another size or with other keys in `result`
/// become one leaf each, to be given as a list of the micro-batches' values; the other leaves keep
/// their rules. Whether there were any.
bool agreeWithResult(Signature &signature, const c10::IValue &result);

} // namespace pipec

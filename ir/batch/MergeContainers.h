// Lists, tuples and dicts of the results of micro-batches.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

using Values = std::vector<c10::IValue>;

/// The error of values that no rule can merge.
llvm::Error differentTrees();

/// A list of tensors if all are tensors, otherwise of any values.
c10::IValue listOf(llvm::ArrayRef<c10::IValue> values);

/// Whether all are lists or tuples of one length, or dicts with the same keys.
bool areAlike(llvm::ArrayRef<c10::IValue> parts);

using MergeColumn = llvm::function_ref<llvm::Expected<c10::IValue>(llvm::ArrayRef<c10::IValue>)>;

/// A container like `parts`, which are alike. Each element is the `merge` of the elements at the
/// same place.
llvm::Expected<c10::IValue> mapElements(llvm::ArrayRef<c10::IValue> parts, MergeColumn merge);

/// Joins lists: the values, or the lists `depth` levels inside containers that are alike. Errors:
/// Other for other values.
llvm::Expected<c10::IValue> joined(llvm::ArrayRef<c10::IValue> parts, int64_t depth);

/// Whether all are lists with an entry per sample, and the entries are not tensors of a whole
/// micro-batch. Without an example only this shows how they are merged.
bool areListsOfSamples(llvm::ArrayRef<c10::IValue> parts, llvm::ArrayRef<int64_t> samples);

} // namespace pipec

// Whether two sets of arguments are the same for every operator.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Whether operators compute the same bits from both: the same structure, dtypes, sizes, strides,
/// gradient flags and bytes. False if that is not certain, as for sparse and quantised tensors.
bool haveSameBits(llvm::ArrayRef<c10::IValue> a, llvm::ArrayRef<c10::IValue> b);

} // namespace pipec

// Keeps the results of a micro-batch unchanged when a later one writes the state that they show.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Returns `result` with new containers, and with copies of the tensors that share memory with
/// anything in `state`, in the same layout. Other tensors stay shared.
c10::IValue apartFrom(const c10::IValue &result, llvm::ArrayRef<c10::IValue> state);

} // namespace pipec

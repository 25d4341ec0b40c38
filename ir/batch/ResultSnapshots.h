// Results of a micro-batch that stay what they are when a later one writes the state they show.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// `result` with containers of its own, and with copies of the tensors that share memory with
/// anything `state` holds, in the same layout; other tensors as they are.
c10::IValue apartFrom(const c10::IValue &result, llvm::ArrayRef<c10::IValue> state);

} // namespace pipec

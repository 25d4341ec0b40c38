// Arguments in messages.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The given arguments on one line: "x: int64[2, 64], more: [float32[3], ... 12 in all], n: 3".
std::string argumentsText(const Signature &signature, llvm::ArrayRef<c10::IValue> values);
/// The help of a failure that came from running the model, as long as nothing better is known.
inline constexpr const char *kRefusedByModel =
    "pass arguments that the model accepts: its own operators refuse those after \"called with\", "
    "which may be one micro-batch of a batch";
/// What an author can do about a write that gradients do not allow.
inline constexpr const char *kWriteElsewhere =
    "write into a copy, x = x.clone(), or make a new value, x = x + 1 for x += 1";
/// Adds that line to a failure of kind Usage that came from running the model, and this help if it
/// has none. Other errors stay unchanged.
llvm::Error withArguments(llvm::Error error, const Signature &signature,
                          llvm::ArrayRef<c10::IValue> values);

} // namespace pipec

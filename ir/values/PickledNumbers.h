// Whole numbers in pickles: Python writes those that do not fit int32 in as few bytes as they need.
// Of these, LibTorch reads numbers of 8 bytes only. Hand-made because no library rewrites opcodes;
// the unpickling itself is LibTorch's.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace pipec {

/// The pickle with each whole number of fewer than 8 bytes written in 8. Nullopt if it has none, or
/// if an opcode is none that torch.save writes.
std::optional<std::string> withNumbersOf8Bytes(llvm::StringRef pickle);

} // namespace pipec

// Sizes and times with units, in options and reports.
#pragma once

#include "ir/support/Error.h"

namespace pipec {

/// 64, 64B, 10kB, 64KiB, 1.5GiB. Errors: Usage.
llvm::Expected<int64_t> parseSize(llvm::StringRef text);
/// Nanoseconds of 90s, 1.5ms, 10us, 3ns, 5min, 2h. A plain number is seconds. Errors: Usage.
llvm::Expected<int64_t> parseDuration(llvm::StringRef text);

} // namespace pipec

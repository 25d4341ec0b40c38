// The options of unroll-loops.
#pragma once

#include "passes/PassOptions.h"

namespace pipec {

struct UnrollLoopsOptions {
  static constexpr llvm::StringLiteral kPass = "unroll-loops";
  static OptionFields<UnrollLoopsOptions> fields();

  size_t growth = 20000; // how many nodes may be added in all
};

} // namespace pipec

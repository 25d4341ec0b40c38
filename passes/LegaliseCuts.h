// The options of legalise-cuts.
#pragma once

#include "passes/PassOptions.h"

namespace pipec {

struct LegaliseCutsOptions {
  static constexpr llvm::StringLiteral kPass = "legalise-cuts";
  static OptionFields<LegaliseCutsOptions> fields();

  bool nearest = false; // a boundary that is not possible moves; else it is refused
};

} // namespace pipec

// The options of lower-attributes.
#pragma once

#include "passes/PassOptions.h"

#include <optional>

namespace pipec {

struct LowerAttributesOptions {
  static constexpr llvm::StringLiteral kPass = "lower-attributes";
  static OptionFields<LowerAttributesOptions> fields();

  std::optional<bool> training; // what training flags are folded to; nullopt: as they are saved
  std::vector<std::string> keepEval; // modules whose flags are folded to false
};

} // namespace pipec

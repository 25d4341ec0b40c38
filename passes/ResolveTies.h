// The options of resolve-ties.
#pragma once

#include "ir/plan/Plan.h"
#include "passes/PassOptions.h"

#include <map>
#include <optional>

namespace pipec {

struct ResolveTiesOptions {
  static constexpr llvm::StringLiteral kPass = "resolve-ties";
  static OptionFields<ResolveTiesOptions> fields();

  std::optional<Tie::Mode> mode; // of all ties; nullopt: the cheaper one
  std::map<std::string, Tie::Mode> byName;

  /// Sets the mode of one weight; of all for an empty name. Errors: Usage if it has another mode.
  llvm::Error add(const std::string &name, Tie::Mode one);
};

} // namespace pipec

// The options of choose-cuts.
#pragma once

#include "passes/CutSource.h"
#include "passes/PassOptions.h"

#include <optional>

namespace pipec {

struct ChooseCutsOptions {
  static constexpr llvm::StringLiteral kPass = "choose-cuts";
  static OptionFields<ChooseCutsOptions> fields();

  std::vector<std::string> at;    // cuts before these modules
  std::optional<CutSource> split; // nullopt: At if modules are named, Markers if there are some
  bool nearest = false;           // a cut inside control flow moves before it; else it is refused
  size_t stages = 0;              // 0: as the cuts say
  std::vector<size_t> places;     // cuts before the operators of these numbers
  std::vector<size_t> order;      // of the operators, before they are cut; empty: program order
};

} // namespace pipec

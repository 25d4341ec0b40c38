// Which modules of a source model are in training mode and which in evaluation mode.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The training flags that dropout, normalisations and similar modules read. They are as the file
/// has them, or set for the whole model. The modules in keepEval and their submodules then have the
/// flag off.
struct SourceMode {
  std::optional<bool> training;
  std::vector<std::string> keepEval;
};

} // namespace pipec

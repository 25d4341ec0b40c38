// Which modules of a source model train and which only evaluate.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The training flags that dropout, normalisations and the like read: as the file has them, or set
/// for the whole model; then off in the modules named in keepEval, with all that is in them.
struct SourceMode {
  std::optional<bool> training;
  std::vector<std::string> keepEval;
};

} // namespace pipec

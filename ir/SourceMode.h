// How a source model is read: which modules are in training mode and which in evaluation mode, and
// a loss that is joined to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The training flags that dropout, normalisations and similar modules read. They are as the file
/// has them, or set for the whole model. The modules in keepEval and their submodules then have the
/// flag off.
///
/// A loss in a separate file is joined to a method of the model. What is compiled or run is then
/// the method that joinLoss() makes, see ir/torchfile/JoinLoss.h.
struct SourceMode {
  std::optional<bool> training;
  std::vector<std::string> keepEval;
  std::string loss;                   // the file; empty: none
  std::string lossMethod = "forward"; // of the model, whose results the loss takes
};

} // namespace pipec

// Sizes that may differ from run to run, of arguments that are trees of tensors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipec {

/// A part of a tree of tensors, and its dimensions that differ between runs.
struct PartSizes {
  std::string name; // "batch.mask", or "batch" for all tensors of it
  std::vector<size_t> dims;
};

} // namespace pipec

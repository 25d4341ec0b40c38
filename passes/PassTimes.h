// The time that passes take, as pipe-opt --timing and pipe-compile --timing show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// All runs of one pass.
struct PassTime {
  std::string name;
  size_t runs = 0, changes = 0;
  int64_t ns = 0;
};

/// Adds the runs of `more` to the rows of their passes. A pass without a row gets one at the end.
void addTimes(std::vector<PassTime> &times, const std::vector<PassTime> &more);

} // namespace pipec

// The median of numbers, for example of the times of runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pipec {

/// Of an even number of values, the mean of the middle two; 0 of none.
template <typename Number> Number medianOf(std::vector<Number> values) {
  if (values.empty())
    return Number(0);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const Number upper = *middle;
  if (values.size() % 2)
    return upper;
  const Number lower = *std::max_element(values.begin(), middle);
  return lower + (upper - lower) / 2;
}

} // namespace pipec

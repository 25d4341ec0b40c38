// The first difference between two lists of canonical lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Index of the first line that differs.
std::optional<size_t> firstDifferentLine(const std::vector<std::string> &expected,
                                         const std::vector<std::string> &actual);
/// Describes the first difference; empty if the lists are equal. `expected` is the source.
std::string firstDifference(const std::vector<std::string> &expected,
                            const std::vector<std::string> &actual);

} // namespace pipec

#include "ir/artifact/LineDifference.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipec {

std::optional<size_t> firstDifferentLine(const std::vector<std::string> &expected,
                                         const std::vector<std::string> &actual) {
  for (size_t i = 0; i < std::max(expected.size(), actual.size()); ++i)
    if (i >= expected.size() || i >= actual.size() || expected[i] != actual[i])
      return i;
  return std::nullopt;
}

std::string firstDifference(const std::vector<std::string> &expected,
                            const std::vector<std::string> &actual) {
  std::optional<size_t> line = firstDifferentLine(expected, actual);
  if (!line)
    return "";
  auto at = [&](const std::vector<std::string> &lines) {
    return *line < lines.size() ? lines[*line] : "nothing";
  };
  return fmt::format("operator {}: expected `{}`, got `{}`", *line, at(expected), at(actual));
}

} // namespace pipec

// Arguments as a user gives them.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// Arguments as the user gave them: positional or by keyword.
struct Arguments {
  std::vector<c10::IValue> positional;
  std::vector<std::pair<std::string, c10::IValue>> keyword;
};

} // namespace pipec

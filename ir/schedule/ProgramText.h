// One op as text, for programs, error messages and traces.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// "F 2 mb=0", "TAKE ch=3 mb=0 lane=1".
std::string toString(const Op &op);

} // namespace pipec

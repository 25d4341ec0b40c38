// The cost of an operator, as cost tables and planners count it.
#pragma once

#include <cstdint>

namespace pipec {

/// Estimated cost of one top-level operator at the example size.
struct NodeCost {
  int64_t flops = 0;       // arithmetic plus memory traffic expressed in operations
  int64_t outputBytes = 0; // of the tensors it makes
};

} // namespace pipec

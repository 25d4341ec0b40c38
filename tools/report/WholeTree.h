// The modules of a whole artifact as one tree, over all its stages.
#pragma once

#include "ir/costs/CostTable.h"
#include "ir/plan/Plan.h"

#include <optional>

namespace pipec {

struct WholeModule {
  std::string name;           // last part of its path; "" for the model
  std::vector<size_t> stages; // stages that hold a part of it, ascending
  int64_t parameterBytes = 0; // its own and its children's, as the stages hold them
  int64_t otherBytes = 0;     // buffers and constants
  int64_t costNs = 0;         // its own and its children's; 0 without costs
  std::vector<WholeModule> children;
};

/// Uses the plan, and the costs of the model's operators if the artifact has them. Children are in
/// program order, as far as the costs or the stages show it.
WholeModule wholeTree(const Plan &plan, const std::optional<CostTable> &costs);

/// A tree that opens and closes without a script; the first two levels are open. With costs, a
/// column shows each module's share.
std::string htmlTree(const WholeModule &model);

} // namespace pipec

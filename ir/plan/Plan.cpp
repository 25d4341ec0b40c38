#include "ir/plan/Plan.h"

namespace pipec {

PortRef TrainingPlan::owner(size_t parameter, const std::vector<StagePlan> &stages) const {
  PortRef first;
  for (const PortRef &use : parameters[parameter].uses)
    if (!stages[use.stage].attributes[use.port].channel)
      first = use; // uses go from the last stage to the first
  return first;
}

} // namespace pipec

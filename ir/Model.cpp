#include "ir/Model.h"

#include "ir/plan/Chain.h"
#include "ir/plan/PlanNames.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

Plan StagedModel::plan() const {
  Plan plan;
  plan.sourceDigest = sourceDigest;
  plan.mode = mode;
  plan.signature = signature;
  plan.channels = channels;
  plan.ties = ties;
  for (const Stage &stage : stages) {
    StagePlan entry = stage.plan;
    // Constants live in the code of the stage; they stand last, so no index moves.
    llvm::erase_if(entry.attributes, [](const StageAttribute &attribute) {
      return attribute.kind == AttributeKind::Constant;
    });
    plan.ranks = std::max(plan.ranks, entry.rank + 1);
    plan.stages.push_back(std::move(entry));
  }
  plan.obligations = obligations;
  plan.requiredFeatures = featuresOf(plan);
  plan.chain = chainBreak(plan).empty();
  return plan;
}

} // namespace pipec

#include "ir/plan/TrainingVerifier.h"

#include "ir/plan/Faults.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

namespace pipec {

using namespace planparts;

namespace {

llvm::Error verifyUses(const Plan &plan, const std::string &where,
                       const TrainedParameter &parameter,
                       std::set<std::pair<size_t, size_t>> &seen) {
  if (parameter.uses.empty())
    return badAt(where, "expected a stage that reads it, got none");
  bool held = false;
  for (size_t u = 0; u < parameter.uses.size(); ++u) {
    const PortRef &use = parameter.uses[u];
    if (use.stage >= plan.stages.size() || use.port >= plan.stages[use.stage].attributes.size())
      return badAt(where, "no attribute {} of stage {}", use.port, use.stage);
    const StageAttribute &attribute = plan.stages[use.stage].attributes[use.port];
    if (!attribute.requiresGrad)
      return badAt(where, "{} requires no gradient", attributeName(plan, use.stage, use.port));
    if (attribute.name != parameter.name &&
        !llvm::is_contained(parameter.otherNames, attribute.name))
      return badAt(where, "{} has another name", attributeName(plan, use.stage, use.port));
    if (u > 0 && use.stage >= parameter.uses[u - 1].stage)
      return badAt(where, "expected stages from the last to the first, got {} after {}", use.stage,
                   parameter.uses[u - 1].stage);
    if (!seen.insert({use.stage, use.port}).second)
      return badAt(where, "{} is another parameter's", attributeName(plan, use.stage, use.port));
    held |= !attribute.channel;
  }
  return held ? llvm::Error::success() : badAt(where, "no stage holds it");
}

} // namespace

llvm::Error planparts::verifyTraining(const Plan &plan) {
  if (!plan.training) // of format 1.1, whose training artifacts no release has trained
    return llvm::Error::success();
  if (plan.mode != Mode::Train)
    return bad("training: expected mode train, got {}", toString(plan.mode).str());
  const TrainingPlan &training = *plan.training;
  if (training.loss >= plan.signature.leaves.size())
    return bad("training: no result {}: the loss", training.loss);
  if (training.count &&
      (*training.count >= plan.signature.leaves.size() || *training.count == training.loss))
    return bad("training: count: expected a result below {} that is not the loss, got {}",
               plan.signature.leaves.size(), *training.count);
  if (training.whyWhole.size() != plan.stages.size())
    return bad("training: why_whole: expected {} stages, got {}", plan.stages.size(),
               training.whyWhole.size());
  for (size_t i = 0; i < training.recompute.size(); ++i)
    if (training.recompute[i] >= plan.stages.size() ||
        (i > 0 && training.recompute[i] <= training.recompute[i - 1]))
      return bad("training: recompute: expected stages below {}, ascending, got {}",
                 plan.stages.size(), training.recompute[i]);
  if (!training.costs.empty() && training.costs.size() != plan.stages.size())
    return bad("training: costs: expected {} stages, got {}", plan.stages.size(),
               training.costs.size());
  for (const ExpectedCosts &costs : training.costs)
    if (costs.forward < 0 || costs.inputGrad < 0 || costs.weightGrad < 0 || costs.kept < 0 ||
        costs.freedByInputGrad < 0)
      return bad("training: costs: expected no negative times and bytes");
  std::set<std::pair<size_t, size_t>> seen;
  for (const TrainedParameter &parameter : training.parameters) {
    const std::string where = "training: parameter " + parameter.name;
    if (!bytesOfDtype(parameter.dtype) || !isDifferentiable(parameter.dtype))
      return badAt(where, "expected a floating dtype, got \"{}\"", parameter.dtype);
    if (parameter.shape.size() != parameter.strides.size())
      return badAt(where, "expected {} strides, got {}", parameter.shape.size(),
                   parameter.strides.size());
    TRY(verifyUses(plan, where, parameter, seen));
  }
  return llvm::Error::success();
}

} // namespace pipec

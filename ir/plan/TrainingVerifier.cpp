#include "ir/plan/TrainingVerifier.h"

#include "ir/plan/LossLeaf.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

namespace pipec {

using namespace planparts;

namespace {

std::vector<std::string> namesOf(const StageAttribute &attribute) {
  std::vector<std::string> names = {attribute.name};
  names.insert(names.end(), attribute.otherNames.begin(), attribute.otherNames.end());
  return names;
}

/// Bytes of a tensor of these sizes; -1: no tensor has them.
int64_t bytesOf(const std::vector<int64_t> &shape, int64_t size) {
  int64_t bytes = size;
  for (int64_t length : shape)
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
      return -1;
  return bytes;
}

/// Names and flags of the attributes say which stages read which parameter. The list of parameters
/// and the ties, by which gradients are summed, must say the same.
class TrainingVerifier {
public:
  TrainingVerifier(const Plan &plan, Faults &faults)
      : plan_(plan), training_(*plan.training), faults_(faults) {}

  void run() {
    if (plan_.mode != Mode::Train)
      faults_.note(bad("training: expected mode train, got {}", toString(plan_.mode).str()));
    faults_.note(loss());
    faults_.note(stages());
    faults_.note(costs());
    for (size_t p = 0; p < training_.parameters.size(); ++p)
      names(p);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (size_t a = 0; a < plan_.stages[s].attributes.size(); ++a)
        faults_.note(attribute(s, a));
      for (size_t o = 0; o < plan_.stages[s].outputs.size(); ++o)
        faults_.note(flags(s, o));
    }
    for (size_t p = 0; p < training_.parameters.size(); ++p)
      faults_.note(parameter(p));
    for (size_t t = 0; t < plan_.ties.size(); ++t)
      faults_.note(tie(t));
  }

private:
  std::string where(size_t p) const {
    return "training: parameter " + training_.parameters[p].name;
  }
  const StageAttribute &at(const PortRef &port) const {
    return plan_.stages[port.stage].attributes[port.port];
  }

  llvm::Error loss() {
    const std::vector<OutputLeaf> &leaves = plan_.signature.leaves;
    if (training_.loss >= leaves.size())
      return bad("training: no result {}: the loss", training_.loss);
    if (!mayBeLoss(leaves[training_.loss]))
      return bad("training: loss: expected a floating-point tensor of one element, got result {}",
                 training_.loss);
    if (!training_.count)
      return llvm::Error::success();
    if (*training_.count >= leaves.size() || *training_.count == training_.loss)
      return bad("training: count: expected a result below {} that is not the loss, got {}",
                 leaves.size(), *training_.count);
    return mayBeCount(leaves[*training_.count])
               ? llvm::Error::success()
               : bad("training: count: expected one number, got result {}", *training_.count);
  }

  llvm::Error stages() {
    const std::vector<size_t> &again = training_.recompute;
    if (training_.whyWhole.size() != plan_.stages.size())
      return bad("training: why_whole: expected {} stages, got {}", plan_.stages.size(),
                 training_.whyWhole.size());
    for (size_t i = 0; i < again.size(); ++i)
      if (again[i] >= plan_.stages.size() || (i > 0 && again[i] <= again[i - 1]))
        return bad("training: recompute: expected stages below {}, ascending, got {}",
                   plan_.stages.size(), again[i]);
    return llvm::Error::success();
  }

  llvm::Error costs() {
    if (!training_.costs.empty() && training_.costs.size() != plan_.stages.size())
      return bad("training: costs: expected {} stages, got {}", plan_.stages.size(),
                 training_.costs.size());
    for (const ExpectedCosts &costs : training_.costs)
      if (costs.forward < 0 || costs.inputGrad < 0 || costs.weightGrad < 0 || costs.kept < 0 ||
          costs.optimizer < 0)
        return bad("training: costs: expected no negative times and bytes");
    if (training_.samples < 0)
      return bad("training: samples: expected none or more, got {}", training_.samples);
    return llvm::Error::success();
  }

  void names(size_t p) {
    std::vector<std::string> names = training_.parameters[p].otherNames;
    names.insert(names.begin(), training_.parameters[p].name);
    for (const std::string &name : names)
      if (name.empty() || !parameterOf_.try_emplace(name, p).second)
        faults_.note(badAt(where(p), "expected names of its own, got {}", name));
  }

  /// A parameter that requires a gradient is trained. A buffer that requires one may be: the source
  /// decides.
  llvm::Error attribute(size_t s, size_t a) {
    const StageAttribute &it = plan_.stages[s].attributes[a];
    const std::vector<std::string> names = namesOf(it);
    attributeNames_.insert(names.begin(), names.end());
    const auto first = llvm::find_if(
        names, [&](const std::string &name) { return parameterOf_.count(name) != 0; });
    if (first == names.end())
      return it.requiresGrad && it.kind == AttributeKind::Parameter
                 ? badAt(attributeName(plan_, s, a),
                         "requires a gradient, but is none of the trained parameters")
                 : llvm::Error::success();
    const size_t p = parameterOf_.at(*first);
    if (!it.requiresGrad)
      return badAt(attributeName(plan_, s, a), "requires no gradient, but is trained as {}",
                   training_.parameters[p].name);
    for (const std::string &name : names)
      if (const auto found = parameterOf_.find(name);
          found == parameterOf_.end() || found->second != p)
        return badAt(where(p), "expected {} among its names, as {} has it", name,
                     attributeName(plan_, s, a));
    if (!readers_[p].count(s))
      readers_[p][s] = a;
    return llvm::Error::success();
  }

  llvm::Error parameter(size_t p) {
    const TrainedParameter &it = training_.parameters[p];
    if (!bytesOfDtype(it.dtype) || !isDifferentiable(it.dtype))
      return badAt(where(p), "expected a floating dtype, got \"{}\"", it.dtype);
    if (it.shape.size() != it.strides.size())
      return badAt(where(p), "expected {} strides, got {}", it.shape.size(), it.strides.size());
    TRY(uses(p));
    TRY(readers(p));
    TRY(invented(p));
    const int64_t bytes = bytesOf(it.shape, *bytesOfDtype(it.dtype));
    for (const PortRef &use : it.uses)
      if (at(use).bytes != bytes)
        return badAt(where(p), "shape: expected one of {} bytes as {} has, got [{}] of {}",
                     at(use).bytes, attributeName(plan_, use.stage, use.port),
                     fmt::join(it.shape, ", "), it.dtype);
    return tied(p);
  }

  /// Whether each use is what a use can be.
  llvm::Error uses(size_t p) {
    const TrainedParameter &it = training_.parameters[p];
    if (it.uses.empty())
      return badAt(where(p), "expected a stage that reads it, got none");
    bool held = false;
    for (size_t u = 0; u < it.uses.size(); ++u) {
      const PortRef &use = it.uses[u];
      if (use.stage >= plan_.stages.size() || use.port >= plan_.stages[use.stage].attributes.size())
        return badAt(where(p), "no attribute {} of stage {}", use.port, use.stage);
      const StageAttribute &attribute = at(use);
      const std::string name = attributeName(plan_, use.stage, use.port);
      if (!attribute.requiresGrad)
        return badAt(where(p), "{} requires no gradient", name);
      if (attribute.name != it.name && !llvm::is_contained(it.otherNames, attribute.name))
        return badAt(where(p), "{} has another name", name);
      if (u > 0 && use.stage >= it.uses[u - 1].stage)
        return badAt(where(p), "expected stages from the last to the first, got {} after {}",
                     use.stage, it.uses[u - 1].stage);
      if (!seen_.insert({use.stage, use.port}).second)
        return badAt(where(p), "{} is another parameter's", name);
      held |= !attribute.channel;
    }
    return held ? llvm::Error::success() : badAt(where(p), "no stage holds it");
  }

  /// Whether the uses are all that there are: a gradient that is left out would be lost.
  llvm::Error readers(size_t p) {
    const std::vector<PortRef> &uses = training_.parameters[p].uses;
    for (const auto &[stage, attribute] : readers_[p]) {
      const size_t s = stage, a = attribute;
      const auto use = llvm::find_if(uses, [&](const PortRef &each) { return each.stage == s; });
      if (use == uses.end())
        return badAt(where(p), "uses: expected one of stage {}, which has it as {}, got none", s,
                     plan_.stages[s].attributes[a].name);
      if (use->port != a)
        return badAt(where(p), "uses: expected attribute {} of stage {}, its first there, got {}",
                     a, s, use->port);
    }
    return llvm::Error::success();
  }

  /// The stages have every name of a trained tensor, those too that the method does not read. The
  /// state file and checkpoints would have any other.
  llvm::Error invented(size_t p) const {
    for (const std::string &name : training_.parameters[p].allNames())
      if (!attributeNames_.count(name))
        return badAt(where(p), "expected an attribute {} of some stage, got none", name);
    return llvm::Error::success();
  }

  /// Gradients of copies are summed, and those of sent weights return, along a tie.
  llvm::Error tied(size_t p) {
    const TrainedParameter &it = training_.parameters[p];
    if (it.uses.size() < 2)
      return llvm::Error::success();
    const bool found = llvm::any_of(plan_.ties, [&](const Tie &tie) {
      return llvm::is_contained(tie.names, it.name) && tie.stages.size() == it.uses.size() &&
             llvm::all_of(it.uses, [&](const PortRef &use) {
               return llvm::is_contained(tie.names, at(use).name) &&
                      llvm::is_contained(tie.stages, use.stage);
             });
    });
    if (found)
      return llvm::Error::success();
    std::vector<size_t> stages;
    for (const PortRef &use : llvm::reverse(it.uses))
      stages.push_back(use.stage);
    return badAt(where(p), "expected a tie of stages {}, which have it, got none",
                 fmt::join(stages, ", "));
  }

  /// All weights of a tie are one parameter, or none is trained.
  llvm::Error tie(size_t t) {
    const Tie &tie = plan_.ties[t];
    std::set<std::string> parameters;
    for (const StagePlan &stage : plan_.stages)
      for (const StageAttribute &attribute : stage.attributes)
        if (llvm::is_contained(tie.names, attribute.name)) {
          const auto found = parameterOf_.find(attribute.name);
          parameters.insert(attribute.requiresGrad && found != parameterOf_.end()
                                ? training_.parameters[found->second].name
                                : "no parameter");
        }
    return parameters.size() < 2
               ? llvm::Error::success()
               : badAt(fmt::format("tie {} ({})", t, tie.names.empty() ? "" : tie.names.front()),
                       "expected one parameter, got weights of {}", fmt::join(parameters, ", "));
  }

  /// Channels of one output carry one value. With other flags the gradient of a consumer would be
  /// lost.
  llvm::Error flags(size_t s, size_t o) {
    const StageOutput &output = plan_.stages[s].outputs[o];
    for (size_t c : output.channels) {
      const TensorSpec &tensor = plan_.channels[c].tensor;
      const TensorSpec &first = plan_.channels[output.channels.front()].tensor;
      if (tensor.known != first.known || tensor.requiresGrad != first.requiresGrad)
        return badAt(channelName(plan_, c), "requires_grad: expected {} as {} has it, got {}",
                     first.requiresGrad, channelName(plan_, output.channels.front()),
                     tensor.requiresGrad);
    }
    return llvm::Error::success();
  }

  const Plan &plan_;
  const TrainingPlan &training_;
  Faults &faults_;
  std::map<std::string, size_t> parameterOf_;          // by any of its names
  std::set<std::string> attributeNames_;               // of all stages
  std::map<size_t, std::map<size_t, size_t>> readers_; // of a parameter: stage, first attribute
  std::set<std::pair<size_t, size_t>> seen_;
};

} // namespace

void planparts::verifyTraining(const Plan &plan, Faults &faults) {
  if (plan.training) // none in format 1.1, whose training artifacts no release has trained
    TrainingVerifier(plan, faults).run();
}

} // namespace pipec

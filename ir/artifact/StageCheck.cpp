#include "ir/artifact/StageCheck.h"

#include "ir/artifact/ArgumentNames.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/ranges.h>

namespace pipec {

namespace {

template <typename... Args>
llvm::Error differs(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, format, std::forward<Args>(args)...);
}

/// LibTorch appends digits to Python's reserved words when a method is saved.
bool isNamed(llvm::StringRef name, llvm::StringRef expected) {
  return name.consume_front(expected) &&
         name.find_first_not_of("0123456789") == llvm::StringRef::npos;
}

llvm::Error checkArguments(const StagePlan &plan, const StageFacts &facts) {
  size_t inputs = plan.inputs.size(), uses = 0;
  for (const StageAttribute &attribute : plan.attributes) // the plan may have any number
    uses = llvm::SaturatingAdd(uses, attribute.uses);
  size_t all = llvm::SaturatingAdd(inputs, uses);
  if (facts.arguments.size() != all)
    return differs("pipec_forward: expected {} arguments ({} inputs, {} weight uses), got {}", all,
                   inputs, uses, facts.arguments.size());
  std::vector<std::string> expected = argumentNames(plan);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!isNamed(facts.arguments[i].name, expected[i]))
      return differs("pipec_forward: argument {}: expected {}, got {}", i, expected[i],
                     facts.arguments[i].name);
  for (size_t i = 0; i < inputs; ++i)
    if (facts.arguments[i].type != canonicalType(plan.inputs[i].type))
      return differs("input {} ({}): expected type {}, got {}", i, plan.inputs[i].name,
                     plan.inputs[i].type, facts.arguments[i].type);
  return llvm::Error::success();
}

llvm::Error checkResults(const StagePlan &plan, const StageFacts &facts) {
  if (facts.results.size() != plan.outputs.size())
    return differs("pipec_forward: expected {} results, got {}", plan.outputs.size(),
                   facts.results.size());
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (facts.results[i] != canonicalType(plan.outputs[i].type))
      return differs("output {} ({}): expected type {}, got {}", i, plan.outputs[i].name,
                     plan.outputs[i].type, facts.results[i]);
  return llvm::Error::success();
}

llvm::Error checkAttributes(const StagePlan &plan, const StageFacts &facts) {
  for (size_t i = 0; i < plan.attributes.size(); ++i) {
    const StageAttribute &said = plan.attributes[i];
    const std::optional<StageFacts::Attribute> &shown = facts.attributes[i];
    if (said.channel)
      continue; // its owner has it
    if (!shown)
      return differs("expected the attribute {}, got a module without it", said.name);
    if (said.kind != shown->kind)
      return differs("attribute {}: kind: expected {}, got {}", said.name,
                     toString(said.kind).str(), toString(shown->kind).str());
    if (said.requiresGrad != shown->requiresGrad)
      return differs("attribute {}: requires_grad: expected {}, got {}", said.name,
                     said.requiresGrad, shown->requiresGrad);
    if (said.bytes != shown->bytes)
      return differs("attribute {}: expected {} bytes, got {}", said.name, said.bytes,
                     shown->bytes);
  }
  return llvm::Error::success();
}

llvm::Error checkEffects(const StagePlan &plan, const StageFacts &facts) {
  const StageEffects &said = plan.effects;
  if (static_cast<int64_t>(said.randomOps.size()) != facts.randomOps)
    return differs("random operators: expected {}, got {}", said.randomOps.size(), facts.randomOps);
  if (said.prints != facts.prints || said.raises != facts.raises)
    return differs("effects: expected prints={} raises={}, got prints={} raises={}", said.prints,
                   said.raises, facts.prints, facts.raises);
  return llvm::Error::success();
}

/// Whether the strides lead to the same elements: that of a dimension with one of them is free.
bool sameStrides(const TrainedParameter &said, const StageFacts::Attribute &shown) {
  for (size_t d = 0; d < said.shape.size(); ++d)
    if (said.shape[d] > 1 && said.strides[d] != shown.strides[d])
      return false;
  return true;
}

} // namespace

llvm::Error checkTrained(const Plan &plan, size_t stage, const StageFacts &facts) {
  if (!plan.training)
    return llvm::Error::success();
  for (const TrainedParameter &said : plan.training->parameters)
    for (const PortRef &use : said.uses) {
      if (use.stage != stage || plan.stages[stage].attributes[use.port].channel)
        continue; // its owner has it
      const StageFacts::Attribute &shown = *facts.attributes[use.port];
      if (said.dtype != shown.dtype || said.shape != shown.shape || !sameStrides(said, shown))
        return differs("attribute {}: expected {}[{}] with strides [{}] as trained parameter {}, "
                       "got {}[{}] with strides [{}]",
                       plan.stages[stage].attributes[use.port].name, said.dtype,
                       fmt::join(said.shape, ", "), fmt::join(said.strides, ", "), said.name,
                       shown.dtype, fmt::join(shown.shape, ", "), fmt::join(shown.strides, ", "));
    }
  return llvm::Error::success();
}

llvm::Error checkStage(const StagePlan &plan, const StageFacts &facts) {
  for (auto *check : {checkArguments, checkResults, checkAttributes, checkEffects})
    TRY(check(plan, facts));
  return llvm::Error::success();
}

} // namespace pipec

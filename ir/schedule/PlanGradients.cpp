#include "ir/schedule/PlanGradients.h"

#include "ir/plan/PlanNames.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

bool carriesGradient(const Plan &plan, const Channel &channel) {
  if (channel.kind == Channel::Kind::Weight)
    return plan.stages[channel.from.stage].attributes[channel.from.port].requiresGrad;
  return channel.tensor.known ? channel.tensor.requiresGrad : !holdsNoTensor(channel.type);
}

bool isAllInW(const Plan &plan, size_t stage) {
  return llvm::none_of(plan.channels, [&](const Channel &channel) {
    return channel.kind == Channel::Kind::Activation && carriesGradient(plan, channel) &&
           llvm::any_of(channel.to, [&](const PortRef &to) { return to.stage == stage; });
  });
}

int64_t receivedGradientBytes(const Plan &plan, size_t stage) {
  int64_t bytes = 0;
  for (const StageOutput &output : plan.stages[stage].outputs)
    for (size_t channel : output.channels)
      if (carriesGradient(plan, plan.channels[channel])) {
        bytes += plan.channels[channel].tensor.bytes;
        break;
      }
  return bytes;
}

bool sumsGradient(const Plan &plan, const Tie &tie) {
  if (tie.mode != Tie::Mode::Replicate)
    return false;
  return llvm::any_of(plan.stages[tie.owner].attributes, [&](const StageAttribute &attribute) {
    return attribute.requiresGrad && llvm::is_contained(tie.names, attribute.name);
  });
}

int64_t gradientBytes(const Plan &plan, size_t stage) {
  int64_t bytes = 0;
  for (const StageAttribute &attribute : plan.stages[stage].attributes)
    if (attribute.requiresGrad && !attribute.channel)
      bytes += attribute.bytes;
  return bytes;
}

} // namespace pipec

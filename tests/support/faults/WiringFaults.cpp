// Faults in what connects stages: ports, channels, results and state.
#include "llvm/ADT/STLExtras.h"
#include "tests/support/faults/Faults.h"
#include "tests/support/faults/GraphEdits.h"

namespace pipec::faults {

bool swappedPorts(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.inputs.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.inputs.size(); ++b)
        if (stage.plan.inputs[a].type == stage.plan.inputs[b].type) {
          exchangeInputs(stage, a, b);
          return true;
        }
  return false;
}

bool swappedOutputs(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.outputs.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.outputs.size(); ++b)
        if (stage.plan.outputs[a].type == stage.plan.outputs[b].type &&
            exchangeOutputs(*stage.graph, a, b))
          return true;
  return false;
}

namespace {

bool goesFurther(const Channel &channel) {
  return llvm::any_of(channel.to,
                      [&](const PortRef &to) { return to.stage != channel.from.stage + 1; });
}

/// The plan stays well-formed: only what is computed becomes another thing.
void redirect(StagedModel &model, size_t stage, size_t port, size_t from, size_t to) {
  llvm::erase_if(model.channels[from].to, [&](const PortRef &end) {
    return end == PortRef{stage, port};
  });
  std::vector<PortRef> &ends = model.channels[to].to;
  ends.push_back({stage, port});
  llvm::sort(ends, [](const PortRef &a, const PortRef &b) {
    return std::pair(a.stage, a.port) < std::pair(b.stage, b.port);
  });
  model.stages[stage].plan.inputs[port].index = to;
  for (size_t channel : {from, to})
    model.channels[channel].skip = goesFurther(model.channels[channel]);
}

} // namespace

bool wrongChannel(StagedModel &model) {
  for (size_t c = 0; c < model.channels.size(); ++c) {
    const Channel &channel = model.channels[c];
    if (channel.kind != Channel::Kind::Activation || channel.to.size() < 2)
      continue;
    PortRef last = channel.to.back();
    for (size_t d = 0; d < model.channels.size(); ++d)
      if (d != c && model.channels[d].kind == Channel::Kind::Activation &&
          model.channels[d].type == channel.type && model.channels[d].from.stage < last.stage) {
        redirect(model, last.stage, last.port, c, d);
        return true;
      }
  }
  return false;
}

bool wrongUserInput(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (StageInput &input : stage.plan.inputs)
      for (size_t i = 0;
           input.kind == StageInput::Kind::UserInput && i < model.signature.inputs.size(); ++i)
        if (i != input.index && model.signature.inputs[i].type == input.type) {
          input.index = i;
          return true;
        }
  return false;
}

bool swappedLeaves(StagedModel &model) {
  std::vector<std::vector<size_t> *> owners;
  for (Stage &stage : model.stages)
    for (StageOutput &output : stage.plan.outputs)
      if (output.leaves.size() == 1 && output.type == "Tensor")
        owners.push_back(&output.leaves);
  if (owners.size() < 2)
    return false;
  std::swap(*owners[0], *owners[1]);
  return true;
}

namespace {

using OnState = llvm::function_ref<bool(Stage &, size_t output)>;

bool firstState(StagedModel &model, OnState tryState) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.outputs.size(); ++i)
      if (stage.plan.outputs[i].state && tryState(stage, i))
        return true;
  return false;
}

} // namespace

bool lostState(StagedModel &model) {
  return firstState(model, [](Stage &stage, size_t output) {
    returnInput(*stage.graph, output, inputOf(stage, *stage.plan.outputs[output].state));
    return true;
  });
}

bool droppedState(StagedModel &model) {
  return firstState(model, [&](Stage &stage, size_t output) {
    if (output + 1 != stage.plan.outputs.size()) // other ports keep their numbers
      return false;
    eraseOutput(stage, output);
    stage.plan.outputs.pop_back();
    return true;
  });
}

bool wrongState(StagedModel &model) {
  return firstState(model, [](Stage &stage, size_t output) {
    size_t &state = *stage.plan.outputs[output].state;
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i)
      if (i != state && stage.plan.attributes[i].written &&
          haveOneType(stage, inputOf(stage, i), inputOf(stage, state))) {
        state = i;
        return true;
      }
    return false;
  });
}

} // namespace pipec::faults

#include "ir/plan/Chain.h"

#include <fmt/format.h>

namespace pipec {

std::string chainBreak(const Plan &plan) {
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel &channel = plan.channels[c];
    const char *what = channel.skip                            ? "skips a stage"
                       : channel.kind == Channel::Kind::Weight ? "sends a weight"
                       : channel.type != "Tensor"              ? "carries no tensor"
                                                               : nullptr;
    if (what)
      return fmt::format("channel {} ({}): {}", c, channel.name, what);
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan &stage = plan.stages[s];
    for (size_t p = 0; p < stage.inputs.size(); ++p)
      if (s > 0 && stage.inputs[p].kind == StageInput::Kind::UserInput)
        return fmt::format("stage {}, input {} ({}): reads a model input", s, p,
                           stage.inputs[p].name);
    for (size_t p = 0; p < stage.outputs.size(); ++p)
      if (s + 1 < plan.stages.size() && !stage.outputs[p].leaves.empty())
        return fmt::format("stage {}, output {} ({}): is a model output", s, p,
                           stage.outputs[p].name);
  }
  return "";
}

} // namespace pipec

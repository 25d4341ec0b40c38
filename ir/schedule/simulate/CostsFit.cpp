#include "ir/schedule/simulate/CostsFit.h"

#include "ir/support/Error.h"

namespace pipec {

llvm::Error checkCosts(const Program &program, const Plan &plan, const ProgramCosts &costs) {
  auto sizes = [](const char *what, size_t got, size_t expected) {
    return failf(ExitCode::Usage, "costs: {}: expected {} as the plan has, got {}", what, expected,
                 got);
  };
  const size_t stages = plan.stages.size();
  if (costs.stages.size() != stages)
    return sizes("stages", costs.stages.size(), stages);
  for (const auto &[name, list] : {std::pair{"wholeBackward", &costs.wholeBackward},
                                   {"recompute", &costs.recompute},
                                   {"keptToRecompute", &costs.keptToRecompute},
                                   {"optimize", &costs.optimize},
                                   {"gradientBytes", &costs.gradientBytes}})
    if (!list->empty() && list->size() != stages)
      return sizes(name, list->size(), stages);
  if (!costs.room.empty() && costs.room.size() != stages)
    return sizes("room", costs.room.size(), stages);
  for (const auto &[name, list] : {std::pair{"channelBytes", &costs.channelBytes},
                                   {"sentBytes", &costs.sentBytes},
                                   {"keptByReader", &costs.keptByReader}})
    if (!list->empty() && list->size() != plan.channels.size())
      return sizes(name, list->size(), plan.channels.size());
  if (!costs.deviceOfRank.empty() && costs.deviceOfRank.size() != program.ranks.size())
    return sizes("deviceOfRank", costs.deviceOfRank.size(), program.ranks.size());
  for (const auto &[ends, link] : costs.linkOf)
    if (link >= costs.links.size())
      return failf(ExitCode::Usage, "costs: link {} from rank {} to rank {}: there are {} links",
                   link, ends.first, ends.second, costs.links.size());
  return llvm::Error::success();
}

} // namespace pipec

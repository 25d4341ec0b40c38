#include "ir/artifact/Discharge.h"

#include "ir/support/Error.h"

namespace pipec {

llvm::Error discharge(const Plan &plan, const std::vector<StageFacts> &stages,
                      const std::map<std::string, int64_t> *source) {
  std::map<std::string, int64_t> allowed, held;
  if (source)
    allowed = *source;
  auto countOf = [](const std::map<std::string, int64_t> &counts, const std::string &kind) {
    auto found = counts.find(kind);
    return found == counts.end() ? 0 : found->second;
  };
  for (const Obligation &obligation : plan.obligations) {
    if (obligation.kind != Obligation::Kind::Recompute)
      continue;
    int64_t got = countOf(stages[obligation.stage].wholeNumberOps, obligation.of);
    if (got < obligation.times)
      return failf(ExitCode::BadArtifact,
                   "stage {}: obligation \"{}\": expected at least {} such operators, got {}",
                   obligation.stage, toString(obligation), obligation.times, got);
    allowed[obligation.of] += obligation.times;
  }
  if (!source)
    return llvm::Error::success();
  for (const StageFacts &stage : stages)
    for (const auto &[kind, count] : stage.wholeNumberOps)
      held[kind] += count;
  for (const auto &[kind, count] : held)
    if (count > countOf(allowed, kind))
      return failf(ExitCode::BadArtifact,
                   "{}: expected at most {} in all stages (the source's and those recorded as "
                   "recomputed), got {}",
                   kind, countOf(allowed, kind), count);
  return llvm::Error::success();
}

} // namespace pipec

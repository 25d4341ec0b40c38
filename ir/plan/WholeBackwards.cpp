#include "ir/plan/WholeBackwards.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace pipec {

std::vector<std::string> wholeBackwards(const Plan &plan) {
  if (!plan.training)
    return {};
  const std::vector<std::string> &why = plan.training->whyWhole;
  if (!why.empty() && llvm::all_of(why, [](const auto &each) { return each == kWholeAsAsked; }))
    return {fmt::format("no stage splits its backward: {}", kWholeAsAsked)};
  std::vector<std::string> sentences;
  for (size_t s = 0; s < why.size(); ++s)
    if (!why[s].empty())
      sentences.push_back(fmt::format("stage {} cannot split its backward: {}", s, why[s]));
  return sentences;
}

} // namespace pipec

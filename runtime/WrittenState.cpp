#include "runtime/WrittenState.h"

#include "ir/values/CompareValues.h"
#include "ir/values/SameBits.h"

#include <set>

namespace pipec {

namespace {

using NamedValues = std::vector<std::pair<std::string, c10::IValue>>;

NamedValues stateOf(const torch::jit::Module &module) {
  std::set<std::string> parameters;
  for (const auto &parameter : module.named_parameters())
    parameters.insert(parameter.name);
  NamedValues state;
  for (const auto &attribute : module.named_attributes())
    if (!attribute.value.isObject() && !parameters.count(attribute.name))
      state.emplace_back(attribute.name, attribute.value);
  return state;
}

/// Of quantised and sparse tensors, only the comparison of values is certain; of NaN, only that of
/// bits.
bool differ(const c10::IValue &a, const c10::IValue &b) {
  return !haveSameBits(a, b) && !compare(a, b, 0.0, 0.0).equal;
}

} // namespace

std::vector<std::string> changedState(const torch::jit::Module &before,
                                      const torch::jit::Module &after) {
  const NamedValues old = stateOf(before), now = stateOf(after);
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(old.size(), now.size()); ++i)
    if (differ(old[i].second, now[i].second))
      names.push_back(now[i].first);
  return names;
}

} // namespace pipec

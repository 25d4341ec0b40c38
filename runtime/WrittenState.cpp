#include "runtime/WrittenState.h"

#include "ir/values/CompareValues.h"
#include "ir/values/SameBits.h"

#include <ATen/core/ivalue.h>

#include <set>

namespace pipec {

namespace {

using Seen = std::set<const c10::ivalue::Object *>; // an object may hold itself

/// Objects of TorchScript classes count by what they hold. Objects of libraries do not show theirs.
void addTo(StateValues &state, Seen &seen, const std::string &name, const c10::IValue &value) {
  if (value.isCapsule())
    return;
  if (!value.isObject()) {
    state.emplace_back(name, value);
    return;
  }
  const c10::ivalue::Object &object = value.toObjectRef();
  const std::shared_ptr<c10::ClassType> type = object.type();
  if (type->is_module() || !seen.insert(&object).second) // named_attributes() is in all modules
    return;
  for (size_t i = 0; i < type->numAttributes(); ++i)
    addTo(state, seen, name + "." + type->getAttributeName(i), object.getSlot(i));
}

/// Of quantised and sparse tensors, only the comparison of values is certain; of NaN, only that of
/// bits.
bool differ(const c10::IValue &a, const c10::IValue &b) {
  return !haveSameBits(a, b) && !compare(a, b, 0.0, 0.0).equal;
}

} // namespace

StateValues stateOf(const torch::jit::Module &module, bool withParameters) {
  std::set<std::string> leftOut;
  if (!withParameters)
    for (const auto &parameter : module.named_parameters())
      leftOut.insert(parameter.name);
  StateValues state;
  Seen seen;
  for (const auto &attribute : module.named_attributes())
    if (!leftOut.count(attribute.name))
      addTo(state, seen, attribute.name, attribute.value);
  return state;
}

std::vector<std::string> changedState(const StateValues &before, const StateValues &now) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(before.size(), now.size()); ++i)
    if (differ(before[i].second, now[i].second))
      names.push_back(now[i].first);
  return names;
}

} // namespace pipec

#include "runtime/training/OptimizerState.h"

#include "llvm/ADT/STLExtras.h"

namespace pipec {

const c10::IValue &valueOf(const OptimizerState &state, llvm::StringRef key) {
  const auto found = llvm::find_if(state, [&](const auto &entry) { return entry.first == key; });
  TORCH_CHECK(found != state.end(), "expected ", key.str(), " of the optimizer, got none");
  return found->second;
}

at::Tensor tensorOf(const OptimizerState &state, llvm::StringRef key) {
  return state.empty() ? at::Tensor() : valueOf(state, key).toTensor();
}

c10::IValue dictOf(const OptimizerState &state) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto &[key, value] : state)
    dict.insert(key, value.isTensor() && value.toTensor().defined()
                         ? c10::IValue(value.toTensor().cpu())
                         : value);
  return dict;
}

} // namespace pipec

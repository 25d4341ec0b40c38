#include "runtime/training/OptimizerState.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

llvm::Expected<c10::IValue> valueOf(const OptimizerState &state, llvm::StringRef key) {
  const auto found = llvm::find_if(state, [&](const auto &entry) { return entry.first == key; });
  if (found == state.end())
    return failf(ExitCode::BadArtifact, "expected {} of the optimizer, got none", key.str());
  return found->second;
}

} // namespace

llvm::Expected<int64_t> stepsOf(const OptimizerState &state) {
  if (state.empty())
    return 0;
  const c10::IValue steps = TRY(valueOf(state, "step"));
  if (!steps.isInt())
    return failf(ExitCode::BadArtifact, "step of the optimizer: expected an integer, got a {}",
                 steps.tagKind());
  return steps.toInt();
}

llvm::Expected<at::Tensor> tensorOf(const OptimizerState &state, llvm::StringRef key) {
  if (state.empty())
    return at::Tensor();
  const c10::IValue value = TRY(valueOf(state, key));
  if (!value.isTensor())
    return failf(ExitCode::BadArtifact, "{} of the optimizer: expected a tensor, got a {}",
                 key.str(), value.tagKind());
  return value.toTensor();
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

#include "runtime/training/UserOptimizer.h"

#include <ATen/core/Dict.h>

namespace pipec {

void UserOptimizer::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  own_->step(ValueTree::of(parameter), ValueTree::of(gradient), learningRate);
}

OptimizerState UserOptimizer::state() const {
  OptimizerState saved;
  for (const auto &entry : own_->state().ivalue().toGenericDict())
    saved.emplace_back(entry.key().toStringRef(), entry.value());
  return saved;
}

llvm::Error UserOptimizer::setState(const OptimizerState &state) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto &[key, value] : state)
    dict.insert(key, value);
  own_->setState(ValueTree::of(dict));
  return llvm::Error::success();
}

} // namespace pipec

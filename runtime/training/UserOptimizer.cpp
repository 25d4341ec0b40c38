#include "runtime/training/UserOptimizer.h"

#include "runtime/training/OptimizerState.h"

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

void UserOptimizer::setState(const OptimizerState &state) {
  own_->setState(ValueTree::of(dictOf(state)));
}

} // namespace pipec

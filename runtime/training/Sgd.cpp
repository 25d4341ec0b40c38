#include "runtime/training/Sgd.h"

#include "ir/support/Try.h"
#include "runtime/training/MultiplyBy.h"
#include "runtime/training/OptimizerState.h"

namespace pipec {

Sgd::Sgd(const NamedSettings &settings)
    : momentum_(settings["momentum"]), dampening_(settings["dampening"]),
      weightDecay_(settings["weight_decay"]), nesterov_(settings["nesterov"] == 1) {}

void Sgd::step(double learningRate, at::Tensor parameter, at::Tensor gradient) {
  if (weightDecay_ != 0)
    gradient = gradient.add(parameter, weightDecay_);
  if (momentum_ != 0) {
    if (buffer_.defined())
      multiplyBy(buffer_, momentum_).add_(gradient, 1 - dampening_);
    else
      buffer_ = gradient.clone();
    gradient = nesterov_ ? gradient.add(buffer_, momentum_) : buffer_;
  }
  parameter.add_(gradient, -learningRate);
}

OptimizerState Sgd::state() const {
  OptimizerState saved;
  if (buffer_.defined())
    saved.emplace_back("momentum_buffer", buffer_);
  return saved;
}

llvm::Error Sgd::setState(const OptimizerState &state) {
  buffer_ = TRY(tensorOf(state, "momentum_buffer"));
  return llvm::Error::success();
}

} // namespace pipec

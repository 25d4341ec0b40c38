#include "runtime/training/Optimizer.h"

#include "ir/support/Check.h"
#include "runtime/training/OptimizerState.h"

#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace pipec {

namespace optim = torch::optim;

namespace {

std::unique_ptr<optim::Optimizer> make(const NamedSettings &with,
                                       const std::vector<at::Tensor> &parameters) {
  const double lr = with["lr"], decay = with["weight_decay"];
  if (with.name == "sgd")
    return std::make_unique<optim::SGD>(parameters, optim::SGDOptions(lr)
                                                        .momentum(with["momentum"])
                                                        .dampening(with["dampening"])
                                                        .weight_decay(decay)
                                                        .nesterov(with["nesterov"] == 1));
  if (with.name == "rmsprop")
    return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions(lr)
                                                            .alpha(with["alpha"])
                                                            .eps(with["eps"])
                                                            .weight_decay(decay)
                                                            .momentum(with["momentum"])
                                                            .centered(with["centered"] == 1));
  PIPEC_ASSERT(with.name == "adagrad", "an optimizer of the table");
  return std::make_unique<optim::Adagrad>(
      parameters, optim::AdagradOptions(lr)
                      .lr_decay(with["lr_decay"])
                      .weight_decay(decay)
                      .initial_accumulator_value(with["initial_accumulator_value"])
                      .eps(with["eps"]));
}

} // namespace

Optimizer::Optimizer(const NamedSettings &settings, std::vector<at::Tensor> parameters)
    : name_(settings.name), parameters_(std::move(parameters)) {
  if (settings.name == "adam" || settings.name == "adamw")
    adam_.emplace(settings, parameters_);
  else
    optimizer_ = make(settings, parameters_);
}
Optimizer::Optimizer(Optimizer &&) = default;
Optimizer &Optimizer::operator=(Optimizer &&) = default;
Optimizer::~Optimizer() = default;

void Optimizer::step(double learningRate, const std::vector<at::Tensor> &gradients) {
  PIPEC_ASSERT(gradients.size() == parameters_.size(), "one gradient per parameter");
  if (adam_) {
    c10::AutoGradMode noGrad(false);
    adam_->step(learningRate, gradients);
    return;
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].mutable_grad() = gradients[i];
  for (optim::OptimizerParamGroup &group : optimizer_->param_groups())
    group.options().set_lr(learningRate);
  optimizer_->step();
  for (at::Tensor &parameter : parameters_)
    parameter.mutable_grad().reset();
}

OptimizerState Optimizer::state(size_t parameter) const {
  if (adam_)
    return adam_->state(parameter);
  const auto &states = optimizer_->state();
  const auto found = states.find(parameters_[parameter].unsafeGetTensorImpl());
  return found == states.end() ? OptimizerState() : stateOf(name_, *found->second);
}

void Optimizer::setState(size_t parameter, const OptimizerState &state) {
  if (adam_)
    return adam_->setState(parameter, state);
  void *const key = parameters_[parameter].unsafeGetTensorImpl();
  if (!state.empty())
    optimizer_->state()[key] = paramStateOf(name_, state);
  else if (name_ != "adagrad") // which has one from the start
    optimizer_->state().erase(key);
}

} // namespace pipec

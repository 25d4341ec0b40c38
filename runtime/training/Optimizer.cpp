#include "runtime/training/Optimizer.h"

#include "ir/support/Check.h"
#include "runtime/training/OptimizerState.h"

#include <c10/core/GradMode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

namespace pipec {

namespace optim = torch::optim;

namespace {

std::unique_ptr<optim::OptimizerOptions> optionsOf(const NamedSettings &with) {
  const double lr = with["lr"], decay = with["weight_decay"];
  if (with.name == "sgd")
    return std::make_unique<optim::SGDOptions>(optim::SGDOptions(lr)
                                                   .momentum(with["momentum"])
                                                   .dampening(with["dampening"])
                                                   .weight_decay(decay)
                                                   .nesterov(with["nesterov"] == 1));
  PIPEC_ASSERT(with.name == "adagrad", "an optimizer of the table");
  return std::make_unique<optim::AdagradOptions>(
      optim::AdagradOptions(lr)
          .lr_decay(with["lr_decay"])
          .weight_decay(decay)
          .initial_accumulator_value(with["initial_accumulator_value"])
          .eps(with["eps"]));
}

std::unique_ptr<optim::Optimizer> make(const std::vector<NamedSettings> &settings,
                                       const std::vector<at::Tensor> &parameters) {
  std::vector<optim::OptimizerParamGroup> groups;
  for (size_t i = 0; i < parameters.size(); ++i)
    groups.emplace_back(std::vector<at::Tensor>{parameters[i]}, optionsOf(settings[i]));
  if (settings.front().name == "sgd")
    return std::make_unique<optim::SGD>(std::move(groups), optim::SGDOptions(0));
  return std::make_unique<optim::Adagrad>(std::move(groups), optim::AdagradOptions());
}

} // namespace

Optimizer::Optimizer(const std::vector<NamedSettings> &settings, std::vector<at::Tensor> parameters)
    : name_(settings.front().name), parameters_(std::move(parameters)) {
  PIPEC_ASSERT(settings.size() == parameters_.size(), "settings for each parameter");
  for (const NamedSettings &each : settings) {
    rates_.push_back(each["lr"]);
    if (std::unique_ptr<TensorOptimizer> own = makeTensorOptimizer(each))
      own_.push_back(std::move(own));
  }
  if (own_.empty())
    optimizer_ = make(settings, parameters_);
}
Optimizer::Optimizer(Optimizer &&) = default;
Optimizer &Optimizer::operator=(Optimizer &&) = default;
Optimizer::~Optimizer() = default;

void Optimizer::step(double rateFactor, const std::vector<at::Tensor> &gradients) {
  PIPEC_ASSERT(gradients.size() == parameters_.size(), "one gradient per parameter");
  c10::AutoGradMode noGrad(false);
  for (size_t i = 0; i < own_.size(); ++i)
    if (gradients[i].defined())
      own_[i]->step(rates_[i] * rateFactor, parameters_[i], gradients[i]);
  if (!own_.empty())
    return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].mutable_grad() = gradients[i];
    optimizer_->param_groups()[i].options().set_lr(rates_[i] * rateFactor);
  }
  optimizer_->step();
  for (at::Tensor &parameter : parameters_)
    parameter.mutable_grad().reset();
}

OptimizerState Optimizer::state(size_t parameter) const {
  if (!own_.empty())
    return own_[parameter]->state();
  const auto &states = optimizer_->state();
  const auto found = states.find(parameters_[parameter].unsafeGetTensorImpl());
  return found == states.end() ? OptimizerState() : stateOf(name_, *found->second);
}

void Optimizer::setState(size_t parameter, const OptimizerState &state) {
  if (!own_.empty())
    return own_[parameter]->setState(state);
  void *const key = parameters_[parameter].unsafeGetTensorImpl();
  if (!state.empty())
    optimizer_->state()[key] = paramStateOf(name_, state);
  else if (name_ != "adagrad") // which has one from the start
    optimizer_->state().erase(key);
}

} // namespace pipec

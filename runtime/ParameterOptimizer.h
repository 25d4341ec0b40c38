// An optimizer of the user's own. Public; no LibTorch header, but an implementation needs one.
#pragma once

#include "ir/values/ValueTree.h"

#include <functional>
#include <memory>
#include <string>

namespace pipec {

/// Updates one tensor. A weight that several stages hold has an optimizer for each copy: the copies
/// get the same gradients, and stay equal if equal calls do the same.
///
/// Each object is used by one thread at a time, that of the rank that holds the tensor. Whatever
/// std::exception a function throws fails the call with its message.
class ParameterOptimizer {
public:
  virtual ~ParameterOptimizer() = default;
  /// Writes the new value into `parameter`, a tensor, without gradients being recorded. `gradient`:
  /// after clipping; it may be overwritten, and may be sparse. rateFactor: of
  /// TrainingOptions::learningRates, 1 if it is constant.
  virtual void step(const ValueTree &parameter, const ValueTree &gradient, double rateFactor) = 0;
  /// The state for a checkpoint: a dict of tensors and integers by name; shared, not copied.
  virtual ValueTree state() const { return ValueTree::dict({}); }
  /// Replaces it when a training is resumed, with tensors on the device of the parameter; an empty
  /// dict: as before the first step.
  virtual void setState(const ValueTree &) {}
};

/// Makes the optimizer of a parameter, by the parameter's first name.
using OptimizerFactory =
    std::function<std::unique_ptr<ParameterOptimizer>(const std::string &parameter)>;

} // namespace pipec

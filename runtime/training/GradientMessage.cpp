#include "runtime/training/GradientMessage.h"

#include <ATen/core/Tensor.h>

namespace pipec {

c10::IValue orNone(const at::Tensor &tensor) {
  return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
}

c10::IValue tupleOf(std::vector<c10::IValue> values) {
  return c10::ivalue::Tuple::create(std::move(values));
}

c10::IValue asMessage(const ValueGradients &gradients) {
  std::vector<c10::IValue> values;
  for (const at::Tensor &gradient : gradients)
    values.push_back(orNone(gradient));
  return tupleOf(std::move(values));
}

ValueGradients fromMessage(const c10::IValue &message) {
  ValueGradients gradients;
  if (message.isTuple())
    for (const c10::IValue &each : message.toTupleRef().elements())
      gradients.push_back(each.isTensor() ? each.toTensor() : at::Tensor());
  return gradients;
}

} // namespace pipec

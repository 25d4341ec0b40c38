#include "runtime/training/GradientMessage.h"

#include "ir/autograd/GradSum.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace pipec {

c10::IValue orNone(const at::Tensor &tensor) {
  return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
}

c10::IValue tupleOf(std::vector<c10::IValue> values) {
  return c10::ivalue::Tuple::create(std::move(values));
}

c10::IValue asMessage(ValueGradients &gradients) {
  auto take = [](at::Tensor &gradient) {
    return gradient.defined() ? c10::IValue(std::move(gradient)) : c10::IValue();
  };
  if (gradients.size() == 1)
    return take(gradients.front());
  std::vector<c10::IValue> values;
  values.reserve(gradients.size());
  for (at::Tensor &gradient : gradients)
    values.push_back(take(gradient));
  return tupleOf(std::move(values));
}

void addMessage(const c10::IValue &message, ValueGradients &sums) {
  auto addAt = [&](size_t i, const c10::IValue &value) {
    if (i >= sums.size())
      sums.resize(i + 1);
    if (value.isTensor())
      addGradient(sums[i], value.toTensor());
  };
  if (!message.isTuple()) {
    if (message.isTensor())
      addAt(0, message);
    return;
  }
  size_t next = 0;
  for (const c10::IValue &each : message.toTupleRef().elements())
    addAt(next++, each);
}

} // namespace pipec

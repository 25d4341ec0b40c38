// Gradients as ranks send them: tuples.
#pragma once

#include "ir/autograd/StageTape.h"

namespace pipec {

/// None for a tensor without a value.
c10::IValue orNone(const at::Tensor &tensor);
c10::IValue tupleOf(std::vector<c10::IValue> values);

/// The gradients of one value as a message: a tuple that has None for a tensor without gradient.
c10::IValue asMessage(const ValueGradients &gradients);
/// The gradients of such a message; none of any other value.
ValueGradients fromMessage(const c10::IValue &message);

} // namespace pipec

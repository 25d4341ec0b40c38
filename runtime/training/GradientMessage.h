// Gradients as ranks send them: tuples.
#pragma once

#include "ir/autograd/GradLeaf.h"

namespace pipec {

/// None for a tensor without a value.
c10::IValue orNone(const at::Tensor &tensor);
c10::IValue tupleOf(std::vector<c10::IValue> values);

/// The gradients of one value as a message: of one tensor the gradient itself, which needs no
/// memory; else a tuple. None for a tensor without gradient. Takes the gradients.
c10::IValue asMessage(ValueGradients &gradients);
/// Adds the gradients of such a message to `sums`; any other value has none.
void addMessage(const c10::IValue &message, ValueGradients &sums);

} // namespace pipec

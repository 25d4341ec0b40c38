// Optimizers that do not take the sparse gradients of embeddings.
#pragma once

#include "runtime/training/OptimizerText.h"

namespace at {
class Tensor;
}

namespace pipec {

/// For each parameter: the part of its optimizer's settings that takes dense gradients only, such
/// as "adam". Empty: no part does.
std::vector<std::string> whatNeedsDense(const std::vector<NamedSettings> &settings);

/// Errors: Usage if the gradient of `parameter` is sparse and `needsDense` is not empty. Before
/// anything is updated.
llvm::Error checkSparse(const at::Tensor &gradient, const std::string &needsDense,
                        const std::string &parameter);

} // namespace pipec

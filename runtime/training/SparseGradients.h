// Optimizers that do not take the sparse gradients of embeddings.
#pragma once

#include "runtime/training/OptimizerText.h"

namespace at {
class Tensor;
}

namespace pipec {

/// For the optimizer's settings of each parameter, what takes dense gradients only, as "adam";
/// empty: nothing does.
std::vector<std::string> whatNeedsDense(const std::vector<NamedSettings> &settings);

/// Errors: Usage if the gradient of `parameter` is sparse and `needsDense` is not empty. Before
/// anything is updated.
llvm::Error checkSparse(const at::Tensor &gradient, const std::string &needsDense,
                        const std::string &parameter);

} // namespace pipec

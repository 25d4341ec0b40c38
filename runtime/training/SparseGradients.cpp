#include "runtime/training/SparseGradients.h"

#include <ATen/core/Tensor.h>

namespace pipec {

std::string whatNeedsDense(const NamedSettings &optimizer) {
  if (optimizer.name != "sgd" && optimizer.name != "adagrad")
    return optimizer.name;
  return optimizer["weight_decay"] != 0 ? optimizer.name + " with weight_decay" : "";
}

llvm::Error checkSparse(const at::Tensor &gradient, const std::string &needsDense,
                        const std::string &parameter) {
  if (needsDense.empty() || !gradient.defined() || gradient.layout() == at::kStrided)
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("parameter {}: expected a dense gradient for {}, got a sparse one",
                               parameter, needsDense),
                   "use sgd or adagrad without weight_decay, or an embedding with sparse=False");
}

} // namespace pipec

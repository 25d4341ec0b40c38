#include "runtime/training/SparseGradients.h"

#include "runtime/training/UserOptimizer.h"

#include <ATen/core/Tensor.h>

namespace pipec {

std::vector<std::string> whatNeedsDense(const std::vector<NamedSettings> &settings) {
  std::vector<std::string> result;
  for (const NamedSettings &each : settings)
    if (each.name == kUserOptimizer)
      result.push_back("");
    else if (each.name != "sgd" && each.name != "adagrad")
      result.push_back(each.name);
    else
      result.push_back(each["weight_decay"] != 0 ? each.name + " with weight_decay" : "");
  return result;
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

#include "runtime/EvaluationLoss.h"

#include "ir/support/Try.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/RootScale.h"

namespace pipec {

llvm::Error addLoss(const LossLeaves &which, const std::vector<std::vector<c10::IValue>> &leaves,
                    const std::vector<int64_t> &samples, const TrainingOptions &options,
                    Evaluation &result) {
  const std::vector<at::Tensor> scales =
      which.count ? rootScalesOfSums(leaves.size())
                  : rootScales(samples, options.reduction.value_or(LossReduction::Mean));
  LossSum loss;
  if (which.count)
    result.count = 0;
  for (size_t k = 0; k < leaves.size(); ++k) {
    loss.add(leaves[k][which.loss].toTensor(), scales[k]);
    if (!which.count)
      continue;
    const double counted = TRY(lossCount(leaves[k][*which.count], k));
    *result.count += counted;
  }
  result.loss = loss.total(result.count);
  return llvm::Error::success();
}

} // namespace pipec

#include "runtime/EvaluationLoss.h"

#include "ir/support/Try.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/RootScale.h"

namespace pipec {

llvm::Error addLoss(const LossLeaves &which, const std::vector<std::vector<c10::IValue>> &leaves,
                    const std::vector<int64_t> &samples, const TrainingOptions &options,
                    Evaluation &result) {
  std::vector<at::Tensor> losses;
  double count = 0;
  for (size_t k = 0; k < leaves.size(); ++k) {
    losses.push_back(leaves[k][which.loss].toTensor());
    if (!which.count)
      continue;
    double counted = TRY(lossCount(leaves[k][*which.count], k));
    count += counted;
  }
  if (which.count) {
    result.count = count;
    result.loss = totalLoss(losses, rootScalesOfSums(losses.size()), count);
  } else {
    result.loss = totalLoss(
        losses, rootScales(samples, options.reduction.value_or(LossReduction::Mean)), std::nullopt);
  }
  return llvm::Error::success();
}

} // namespace pipec

#include "ir/batch/InputCheck.h"

#include "ir/batch/FixedBatch.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

llvm::Error checkTensor(const InputSpec &input, const at::Tensor &tensor, int64_t microBatch,
                        int64_t samples) {
  const TensorSpec &spec = input.tensor;
  auto where = [&] { return fmt::format("input {}, micro-batch {}", input.name, microBatch); };
  const std::string dtype = dtypeOf(tensor);
  if (dtype != spec.dtype)
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected dtype {}, got {}", where(), spec.dtype, dtype),
                     "convert the input, or compile again with example inputs of this dtype");
  size_t rank = static_cast<size_t>(tensor.dim());
  if (rank != spec.shape.size())
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected {}, got {}", where(),
                                 counted(spec.shape.size(), "dimension"), rank),
                     rank + 1 == spec.shape.size() && input.batchDim
                         ? "give a single sample as a batch of one (x.unsqueeze(0)), or compile "
                           "again with example inputs of this shape"
                         : "compile again with example inputs of this shape");
  for (size_t d = 0; d < rank; ++d) {
    int64_t expected = spec.shape[d].at(samples), got = tensor.size(static_cast<int64_t>(d));
    if (!spec.shape[d].dynamic && expected != got)
      return makeError(
          ExitCode::Usage,
          fmt::format("{}, dimension {}: expected size {}, got {}", where(), d, expected, got),
          !input.batchDim && expected == 1
              ? fmt::format("if this dimension is the batch, compile with --batch-dim {}={}; "
                            "otherwise with example inputs of this shape",
                            input.name, d)
              : "compile again with example inputs of this shape; as a second --inputs beside the "
                "first, they let the artifact take both");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Error checkMicroBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                            int64_t microBatch, int64_t samples) {
  if (isCut(signature) && !signature.batchSymbolic && signature.batchSize > 0 &&
      samples != signature.batchSize)
    return makeError(ExitCode::Usage,
                     fmt::format("micro-batch {}: expected {} ({} fix it), got {}", microBatch,
                                 counted(static_cast<size_t>(signature.batchSize), "sample"),
                                 whatFixesBatch(signature, inputs), samples),
                     "choose --microbatches so that each micro-batch has that size; " +
                         howToFreeBatch(signature));
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (!input.tensor.known || !inputs[i].isTensor() || !inputs[i].toTensor().defined())
      continue;
    TRY(checkTensor(input, inputs[i].toTensor(), microBatch, samples));
  }
  return llvm::Error::success();
}

} // namespace pipec

#include "ir/batch/InputCheck.h"

#include "ir/batch/FixedBatch.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// "x=0,y=0,flag=0": what is cut, as --batch-dim takes it, and dimension `dim` of `other`.
std::string cutsWith(const Signature &signature, const InputSpec &other, size_t dim) {
  std::vector<std::string> cuts;
  for (const InputSpec &input : signature.inputs) {
    if (&input == &other)
      cuts.push_back(fmt::format("{}={}", input.name, dim));
    else if (input.batchDim)
      cuts.push_back(fmt::format("{}={}", input.name, *input.batchDim));
    for (const PartDim &part : input.parts)
      if (part.dim)
        cuts.push_back(fmt::format("{}.{}={}", input.name, part.path, *part.dim));
  }
  return fmt::format("{}", fmt::join(cuts, ","));
}

/// Of a model that runs without a compile: what helps against another size than that of the first
/// batch.
std::string helpWithoutCompile(const Signature &signature, const InputSpec &input, size_t dim) {
  if (isCut(input))
    return "the first batch shows the sizes: pass inputs of this size";
  return fmt::format(
      "every micro-batch gets the whole of {0}, as the first batch suggests: if each "
      "row of it belongs to a sample, pass --batch-dim {1}; otherwise --batch-dim "
      "{0}=none, for any size; of --data, --drop-last leaves out a smaller last "
      "batch",
      input.name, cutsWith(signature, input, dim));
}

llvm::Error checkTensor(const Signature &signature, const InputSpec &input,
                        const at::Tensor &tensor, int64_t microBatch, int64_t samples,
                        SizesFrom from) {
  const TensorSpec &spec = input.tensor;
  const bool isCompiled = from == SizesFrom::Compile;
  auto where = [&] { return fmt::format("input {}, micro-batch {}", input.name, microBatch); };
  const std::string dtype = dtypeOf(tensor);
  if (dtype != spec.dtype)
    return makeError(
        ExitCode::Usage, fmt::format("{}: expected dtype {}, got {}", where(), spec.dtype, dtype),
        isCompiled ? "convert the input, or compile again with example inputs of this dtype"
                   : "convert the input to the dtype of the first batch");
  size_t rank = static_cast<size_t>(tensor.dim());
  if (rank != spec.shape.size())
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected {}, got {}", where(),
                                 counted(spec.shape.size(), "dimension"), rank),
                     !isCompiled ? "pass inputs with as many dimensions as in the first batch"
                     : rank + 1 == spec.shape.size() && input.batchDim
                         ? "give a single sample as a batch of one (x.unsqueeze(0)), or compile "
                           "again with example inputs of this shape"
                         : "compile again with example inputs of this shape");
  for (size_t d = 0; d < rank; ++d) {
    int64_t expected = spec.shape[d].at(samples), got = tensor.size(static_cast<int64_t>(d));
    if (!spec.shape[d].dynamic && expected != got)
      return makeError(
          ExitCode::Usage,
          fmt::format("{}, dimension {}: expected size {}, got {}", where(), d, expected, got),
          !isCompiled ? helpWithoutCompile(signature, input, d)
          : !input.batchDim && expected == 1
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
                            int64_t microBatch, int64_t samples, SizesFrom from) {
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
    TRY(checkTensor(signature, input, inputs[i].toTensor(), microBatch, samples, from));
  }
  return llvm::Error::success();
}

} // namespace pipec

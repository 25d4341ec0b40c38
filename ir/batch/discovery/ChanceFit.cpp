#include "ir/batch/discovery/ChanceFit.h"

#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

namespace pipec {

static bool hasRows(const c10::IValue &value, int64_t rows) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 0 &&
         value.toTensor().size(0) == rows;
}

llvm::Error refuseFitByChance(const Signature &signature, const Values &inputs, int64_t part,
                              const std::vector<bool> &given, ModelRunner run) {
  const int64_t batch = batchSizeOr(part, signature, inputs);
  const auto cut = llvm::find_if(signature.inputs, [](const InputSpec &one) { return isCut(one); });
  if (batch == part || cut == signature.inputs.end())
    return llvm::Error::success();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (isCut(input) || given[i] || !hasRows(inputs[i], part))
      continue;
    llvm::Error whole = run({ownCopies(inputs)}).takeError();
    if (!whole)
      return llvm::Error::success();
    const ErrorText text = describe(std::move(whole));
    if (!runsWithSize(inputs, i, 0, batch, run)) // something else is wrong with the batch
      continue;
    return makeError(text.code,
                     fmt::format("{} has {}, {} has {}: {}", cut->name,
                                 counted(static_cast<size_t>(batch), "sample"), input.name, part,
                                 text.message),
                     fmt::format("pass inputs whose sizes agree; if every micro-batch takes the "
                                 "whole of {}, pass --batch-dim {}=none",
                                 input.name, input.name));
  }
  return llvm::Error::success();
}

} // namespace pipec

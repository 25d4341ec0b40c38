#include "compiler/EstimateCosts.h"

#include "compiler/EvaluateGraph.h"
#include "ir/Values.h"
#include "ir/plan/Cluster.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// Views and bookkeeping move nothing; other operators read their tensors and write their results.
int64_t bytesMoved(const OperatorRun &run) {
  int64_t read = 0, written = 0;
  std::vector<const void *> storages;
  for (const c10::IValue &input : run.inputs)
    forEachTensor(input, [&](const at::Tensor &tensor) {
      if (!tensor.defined() || !tensor.has_storage())
        return;
      storages.push_back(tensor.storage().unsafeGetStorageImpl());
      read += tensor.nbytes();
    });
  for (const c10::IValue &output : run.outputs)
    forEachTensor(output, [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage() &&
          !llvm::is_contained(storages, tensor.storage().unsafeGetStorageImpl()))
        written += tensor.nbytes();
    });
  return written == 0 ? 0 : read + written;
}

} // namespace

int64_t outputBytesOf(const OperatorRun &run) {
  int64_t bytes = 0;
  for (const c10::IValue &output : run.outputs)
    forEachTensor(output, [&](const at::Tensor &tensor) {
      bytes += tensor.defined() && tensor.has_storage() ? tensor.nbytes() : 0;
    });
  return bytes;
}

llvm::Expected<std::vector<OperatorWork>> countWork(Model &model, std::vector<c10::IValue> inputs) {
  std::vector<OperatorWork> work;
  llvm::Error error = evaluateGraph(model, std::move(inputs), [&](const OperatorRun &run) {
    OperatorWork &row = work.emplace_back();
    row.flops = run.flops;
    row.bytesMoved = bytesMoved(run);
    row.outputBytes = outputBytesOf(run);
  });
  if (error)
    return std::move(error);
  return work;
}

llvm::Error estimateCosts(Model &model, std::vector<c10::IValue> inputs) {
  llvm::Expected<std::vector<OperatorWork>> work = countWork(model, std::move(inputs));
  if (!work)
    return work.takeError();
  model.nodeCosts.clear();
  for (const OperatorWork &row : *work)
    model.nodeCosts.push_back({row.flops + kCoreFlopsPerByte * row.bytesMoved, row.outputBytes});
  return llvm::Error::success();
}

} // namespace pipec

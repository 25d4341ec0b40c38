#include "compiler/EstimateCosts.h"

#include "compiler/EvaluateGraph.h"
#include "ir/Values.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// Moving a byte costs a core about as much time as this many operations of a large matrix product.
constexpr int64_t kFlopsPerByte = 6;

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

llvm::Error estimateCosts(Model &model, std::vector<c10::IValue> inputs) {
  std::vector<NodeCost> costs;
  llvm::Error error = evaluateGraph(model, std::move(inputs), [&](const OperatorRun &run) {
    NodeCost cost;
    cost.flops = run.flops + kFlopsPerByte * bytesMoved(run);
    for (const c10::IValue &output : run.outputs)
      forEachTensor(output, [&](const at::Tensor &tensor) {
        cost.outputBytes += tensor.defined() && tensor.has_storage() ? tensor.nbytes() : 0;
      });
    costs.push_back(cost);
  });
  if (error)
    return error;
  model.nodeCosts = std::move(costs);
  return llvm::Error::success();
}

} // namespace pipec

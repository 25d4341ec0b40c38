#include "compiler/cost/EstimateCosts.h"

#include "compiler/cost/GraphEvaluator.h"
#include "compiler/cost/OperatorGraph.h"
#include "ir/costs/Cluster.h"
#include "ir/support/StringSwitch.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

/// Whether it reads only as many elements of its first tensor as it makes.
bool gathers(llvm::StringRef op) {
  return StringSwitch<bool>(op)
      .Cases({"aten::embedding", "aten::index_select", "aten::gather", "aten::index"}, true)
      .Default(false);
}

/// Views and bookkeeping move nothing; other operators read their tensors and write their results.
int64_t bytesMoved(const OperatorRun &run, llvm::StringRef op) {
  int64_t read = 0, written = 0, first = -1;
  std::vector<const void *> storages;
  for (const c10::IValue &input : run.inputs)
    forEachTensor(input, [&](const at::Tensor &tensor) {
      if (!tensor.defined() || !tensor.has_storage())
        return;
      storages.push_back(tensor.storage().unsafeGetStorageImpl());
      read += tensor.nbytes();
      if (first < 0)
        first = tensor.nbytes();
    });
  for (const c10::IValue &output : run.outputs)
    forEachTensor(output, [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage() &&
          !llvm::is_contained(storages, tensor.storage().unsafeGetStorageImpl()))
        written += tensor.nbytes();
    });
  if (gathers(op))
    read -= std::max<int64_t>(0, first - written);
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

namespace {

void countBackward(const OperatorRun &run, OperatorWork &row) {
  row.keptBytes = run.keptBytes;
  row.pendingBytes = run.pendingBytes;
  row.inputGrad.arithmetic = run.backward.inputGradWork;
  row.weightGrad.arithmetic = run.backward.weightGradWork;
  if (row.bytesMoved == 0) // a view has views of gradients
    return;
  int64_t read = row.outputBytes;
  for (const std::vector<int64_t> *kept : {&run.backward.keptOfRead, &run.backward.keptOfMade})
    for (int64_t bytes : *kept)
      read += bytes;
  if (run.backward.inputGradBytes)
    row.inputGrad.bytesMoved = read + run.backward.keptOfWeights + run.backward.inputGradBytes;
  if (run.backward.weightGradBytes)
    row.weightGrad.bytesMoved = read + run.backward.weightGradBytes;
}

} // namespace

llvm::Expected<std::vector<OperatorWork>> countWork(Model &model, std::vector<c10::IValue> inputs,
                                                    bool backward) {
  const OperatorGraph graph = operatorGraph(model);
  std::vector<OperatorWork> work;
  auto count = [&](const OperatorRun &run) {
    const std::string &op = graph.operators[work.size()].op;
    OperatorWork &row = work.emplace_back();
    row.arithmetic = run.work;
    row.bytesMoved = bytesMoved(run, op);
    row.outputBytes = outputBytesOf(run);
    countBackward(run, row);
  };
  TRY(GraphEvaluator(model).run(std::move(inputs), count, backward));
  return work;
}

llvm::Expected<std::vector<NodeCost>> estimateCosts(Model &model, std::vector<c10::IValue> inputs) {
  std::vector<OperatorWork> work = TRY(countWork(model, std::move(inputs)));
  std::vector<NodeCost> costs;
  for (const OperatorWork &row : work)
    costs.push_back(
        {row.arithmetic.coreFlops + kCoreFlopsPerByte * row.bytesMoved, row.outputBytes});
  return costs;
}

} // namespace pipec

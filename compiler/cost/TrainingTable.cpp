#include "compiler/cost/TrainingTable.h"

#include "compiler/cost/WeightStorages.h"
#include "ir/batch/MicroBatch.h"
#include "passes/analysis/CutLegality.h"

#include <ATen/core/Tensor.h>

namespace pipec {

void describeTraining(const Model &model, const std::vector<c10::IValue> &inputs,
                      CostTable &table) {
  const OperatorGraph graph = operatorGraph(model);
  table.training = true;
  table.batch = batchSizeOr(0, model.signature, inputs);
  for (CostRow &row : table.rows) {
    row.reads.clear();
    row.trainedBytes = 0;
    row.withPrevious = false;
  }
  table.shared.clear();
  for (auto [maker, reader] : graph.reads)
    table.rows[reader].reads.push_back(maker);
  const TopLevel top = topLevelOf(model);
  const CutLegality legality(model, top);
  for (size_t i = 1; i < table.rows.size(); ++i)
    table.rows[i].withPrevious = !legality.legal(i);
  for (const WeightStorage &use : weightStorages(model, graph)) {
    const uint32_t first = *use.readers.begin();
    if (use.trained)
      table.rows[first].trainedBytes += use.bytes;
    if (use.readers.size() > 1 && use.bytes > 0)
      table.shared.push_back(
          {use.name, use.bytes, use.trained, {use.readers.begin(), use.readers.end()}});
  }
}

} // namespace pipec

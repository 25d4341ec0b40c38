#include "compiler/cost/MeasureCosts.h"

#include "compiler/cost/EstimateCosts.h"
#include "compiler/cost/MemoryBoundOperators.h"
#include "compiler/cost/OperatorGraph.h"
#include "compiler/cost/OperatorTimes.h"
#include "compiler/cost/TrainingTable.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/Llvm.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"

#include <ATen/core/Tensor.h>

#include <set>

namespace pipec {

namespace {

/// The costs in whole operations of a usual core, the unit of the plan.
int64_t coreFlops(const Arithmetic &work, int64_t bytesMoved, const ClusterDevice &device) {
  // Other devices do not have a CPU's kernels, so only the arithmetic counts there.
  const int64_t arithmetic = device.kind == ClusterDevice::Kind::Cpu ? work.coreFlops : work.flops;
  const double seconds =
      static_cast<double>(arithmetic) / static_cast<double>(device.flopsPerSecond) +
      static_cast<double>(bytesMoved) / static_cast<double>(device.bytesPerSecond);
  return static_cast<int64_t>(seconds * static_cast<double>(kCoreFlopsPerSecond) + 0.5);
}

llvm::Expected<CostTable> countedCosts(Model &model, PassContext &context,
                                       const std::vector<c10::IValue> &inputs,
                                       const ClusterDevice &device, bool backward) {
  std::vector<OperatorWork> work = TRY(countWork(model, ownCopies(inputs), backward));
  CostTable table = emptyTable(model);
  table.pending = backward;
  std::set<std::string> without; // a formula
  context.costs.clear();
  for (size_t i = 0; i < work.size(); ++i) {
    const OperatorWork &row = work[i];
    auto ns = [&](const OperatorWork::Walk &walk) {
      return coreFlops(walk.arithmetic, walk.bytesMoved, device) / kFlopsPerNs;
    };
    const int64_t flops = coreFlops(row.arithmetic, row.bytesMoved, device);
    context.costs.push_back({flops, row.outputBytes});
    table.rows[i].forwardNs = flops / kFlopsPerNs;
    table.rows[i].outputBytes = row.outputBytes;
    table.rows[i].inputGradNs = ns(row.inputGrad);
    table.rows[i].weightGradNs = ns(row.weightGrad);
    table.rows[i].keptBytes = row.keptBytes;
    table.rows[i].pendingBytes = row.pendingBytes;
    llvm::StringRef op = table.rows[i].op;
    if (row.bytesMoved > 0 && row.arithmetic.flops == 0 && !startsWith(op, "prim::") &&
        !isMemoryBound(op))
      without.insert(op.str());
  }
  if (!without.empty())
    context.notes.push_back("no cost formula for " + llvm::join(without, ", ") +
                            "; estimated from memory traffic (--cost measured times them)");
  return table;
}

llvm::Expected<CostTable> costsFromFile(const Model &model, const std::string &path,
                                        bool training) {
  TextFormat format;
  format.what = "JSON";
  format.help = "expected analytic, measured or a table of --emit-costs";
  llvm::Expected<std::string> text = readTextFile(path, format);
  if (!text)
    return withContext(text.takeError(), "--cost");
  llvm::Expected<CostTable> table = costTableFromJson(*text, path);
  if (!table)
    return withContext(table.takeError(), "--cost");
  const OperatorGraph graph = operatorGraph(model);
  const std::string help = "regenerate the table: --cost analytic --emit-costs FILE";
  if (training && !table->training)
    return makeError(
        ExitCode::Usage,
        fmt::format("--cost: {}: expected training costs, got inference costs without the backward",
                    path),
        help + " --train");
  if (table->rows.size() != graph.operators.size())
    return makeError(ExitCode::Usage,
                     fmt::format("--cost: {}: expected the costs of {} operators, got {}", path,
                                 graph.operators.size(), table->rows.size()),
                     help);
  for (size_t i = 0; i < table->rows.size(); ++i)
    if (table->rows[i].op != graph.operators[i].op)
      return makeError(ExitCode::Usage,
                       fmt::format("--cost: {}: operators[{}]: expected {}, got {}", path, i,
                                   graph.operators[i].op, table->rows[i].op),
                       help);
  return table;
}

std::vector<NodeCost> costsOf(const CostTable &table) {
  std::vector<NodeCost> costs;
  for (const CostRow &row : table.rows)
    costs.push_back({row.forwardNs * kFlopsPerNs, row.outputBytes});
  return costs;
}

} // namespace

llvm::Expected<CostTable> findCosts(Model &model, PassContext &context,
                                    const std::vector<c10::IValue> &inputs, const CostSource &cost,
                                    const CompileOptions &options, const ClusterDevice &device,
                                    size_t ranks) {
  const bool training = options.mode == Mode::Train,
             counted = std::holds_alternative<AnalyticCosts>(cost);
  llvm::Expected<CostTable> table =
      counted ? countedCosts(model, context, inputs, device, training)
      : std::holds_alternative<MeasuredCosts>(cost)
          ? timeOperators(model, context.notes, inputs,
                          {options.costBudgetNs ? options.costBudgetNs : TimingRequest().budgetNs,
                           ranks, training, 0, runningFor(model)})
          : costsFromFile(model, std::get<CostFile>(cost).path, training);
  if (!table)
    return table;
  if (!counted)
    context.costs = costsOf(*table);
  if (training)
    describeTraining(model, inputs, *table);
  return table;
}

} // namespace pipec

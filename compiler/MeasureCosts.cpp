#include "compiler/MeasureCosts.h"

#include "compiler/EstimateCosts.h"
#include "compiler/EvaluateGraph.h"
#include "ir/MicroBatch.h"
#include "ir/Values.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

namespace pipec {

namespace {

constexpr size_t kMostTimedRuns = 25;
constexpr double kTolerated = 0.1; // of the whole model's time, before a word is lost about it

int64_t medianOf(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

CostTable emptyTable(const OperatorGraph &graph) {
  CostTable table;
  for (const OperatorGraph::Operator &row : graph.operators)
    table.rows.push_back({row.op, row.module, 0, 0});
  return table;
}

llvm::Expected<CostTable> countedCosts(Model &model, const std::vector<c10::IValue> &inputs,
                                       const ClusterDevice &device) {
  llvm::Expected<std::vector<OperatorWork>> work = countWork(model, ownCopies(inputs));
  if (!work)
    return work.takeError();
  CostTable table = emptyTable(operatorGraph(model));
  std::set<std::string> foreign;
  model.nodeCosts.clear();
  for (size_t i = 0; i < work->size(); ++i) {
    const OperatorWork &row = (*work)[i];
    const double seconds =
        static_cast<double>(row.flops) / static_cast<double>(device.flopsPerSecond) +
        static_cast<double>(row.bytesMoved) / static_cast<double>(device.bytesPerSecond);
    // As whole operations of the usual core, which the plan keeps.
    const auto flops =
        static_cast<int64_t>(seconds * static_cast<double>(kCoreFlopsPerSecond) + 0.5);
    model.nodeCosts.push_back({flops, row.outputBytes});
    table.rows[i].forwardNs = flops / kFlopsPerNs;
    table.rows[i].outputBytes = row.outputBytes;
    llvm::StringRef op = table.rows[i].op;
    if (!op.startswith("aten::") && !op.startswith("prim::"))
      foreign.insert(op.str());
  }
  if (!foreign.empty())
    model.notes.push_back("no formula says what these operators cost, so they count by the bytes "
                          "that they move: " +
                          llvm::join(foreign, ", ") + "; --cost measured times them");
  return table;
}

/// Median times of every operator and of the whole model, taken in turns.
llvm::Expected<CostTable> measuredCosts(Model &model, const std::vector<c10::IValue> &inputs,
                                        int64_t budgetNs) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  CostTable table = emptyTable(operatorGraph(model));
  std::vector<std::vector<int64_t>> times(table.rows.size());
  std::vector<int64_t> wholes;
  for (size_t run = 0; run <= kMostTimedRuns; ++run) {
    size_t i = 0;
    if (llvm::Error error = evaluateGraph(model, ownCopies(inputs), [&](const OperatorRun &done) {
          if (run == 0) // the first run warms up
            table.rows[i].outputBytes = outputBytesOf(done);
          else
            times[i].push_back(done.ns);
          ++i;
        }))
      return std::move(error);
    llvm::Expected<int64_t> whole = timeGraph(model, ownCopies(inputs));
    if (!whole)
      return whole.takeError();
    if (run > 0)
      wholes.push_back(*whole);
    const int64_t spent = std::chrono::nanoseconds(Clock::now() - start).count();
    // At least one run counts, however short the budget; never one more than fits.
    if (run > 0 && spent + spent / static_cast<int64_t>(run + 1) > budgetNs)
      break;
  }
  for (size_t i = 0; i < times.size(); ++i)
    table.rows[i].forwardNs = medianOf(times[i]);
  const int64_t sum = table.totalNs(), whole = medianOf(wholes);
  const double off =
      static_cast<double>(sum - whole) / static_cast<double>(std::max<int64_t>(1, whole));
  if (std::abs(off) > kTolerated)
    model.notes.push_back(fmt::format(
        "the operators' times add up to {:.3f} ms, the whole model takes {:.3f} ms ({:+.0f} %): "
        "predicted times are off by as much",
        static_cast<double>(sum) / 1e6, static_cast<double>(whole) / 1e6, 100 * off));
  return table;
}

llvm::Expected<CostTable> costsFromFile(const Model &model, const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError(ExitCode::IO,
                     fmt::format("--cost: cannot read {}: {}", path,
                                 llvm::StringRef(buffer.getError().message()).lower()),
                     "expected analytic, measured or a table of --emit-costs");
  llvm::Expected<CostTable> table = costTableFromJson((*buffer)->getBuffer(), path);
  if (!table)
    return withContext(table.takeError(), "--cost");
  const OperatorGraph graph = operatorGraph(model);
  const std::string help = "make the table again: --cost analytic --emit-costs FILE";
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

void keep(Model &model, const CostTable &table) {
  model.nodeCosts.clear();
  for (const CostRow &row : table.rows)
    model.nodeCosts.push_back({row.forwardNs * kFlopsPerNs, row.outputBytes});
}

} // namespace

llvm::Expected<CostTable> findCosts(Model &model, const std::vector<c10::IValue> &inputs,
                                    const CompileOptions &options, const ClusterDevice &device) {
  if (options.cost.empty() || options.cost == "analytic")
    return countedCosts(model, inputs, device);
  llvm::Expected<CostTable> table = options.cost == "measured"
                                        ? measuredCosts(model, inputs, options.costBudgetNs)
                                        : costsFromFile(model, options.cost);
  if (table)
    keep(model, *table);
  return table;
}

} // namespace pipec

// The output of pipe-run: statistics over repeated runs as a table or as JSON.
#pragma once

#include "ir/values/CompareValues.h"
#include "llvm/Support/JSON.h"
#include "runtime/Pipeline.h"

namespace pipec {

struct StageLine {
  std::string modules;
  size_t rank = 0;
};

struct RunReport {
  std::string model;
  llvm::json::Object options; // effective
  std::vector<StageLine> stages;
  std::vector<std::string> devices; // per rank
  int threads = 1;
  int64_t microBatches = 1;
  int64_t samples = 0;      // of the last run; 0: no input has a batch dimension
  int64_t skippedSteps = 0; // of a training
  int64_t allSamples = 0; // of all steps of a training, which may differ; 0: each run has `samples`
  // Of each run or step: a few bytes, for a training may have millions.
  std::vector<int64_t> durationsNs;
  std::vector<double> bubblesMakespan, bubblesLongestSpan;
  std::vector<int64_t> busyNs;        // by stage: of all together
  std::optional<StepStats> predicted; // of an artifact: simulated with the stages' measured times
  std::vector<int64_t> peakMemoryBytes;
  std::optional<std::vector<double>> losses;    // of a training, one per step
  std::optional<llvm::json::Array> evaluations; // of a training with --eval-data
  std::vector<std::string> outputs;             // "logits: float32[8, 1000]"
  std::optional<Comparison> comparison;

  /// After a run or step.
  void add(const StepStats &stats);
};

void printText(const RunReport &report, llvm::raw_ostream &out);
void printJson(const RunReport &report, llvm::raw_ostream &out);

/// JSON has no NaN and no infinity: null.
llvm::json::Value numberOrNull(double value);

/// One line per tensor or plain value of a result: path, dtype and shape.
std::vector<std::string> describeOutputs(const c10::IValue &result);

} // namespace pipec

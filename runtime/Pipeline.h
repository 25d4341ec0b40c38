// The runtime's public face: load an artifact, run batches through it. No LibTorch module headers.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

namespace pipec {

struct PipelineOptions {
  int64_t microBatches = 0;         // 0: the plan's default
  int threads = 0;                  // intra-op threads per rank; 0: max(1, cores / ranks)
  std::vector<std::string> devices; // one per rank, or one for all; empty: the plan's, "cpu"
  std::string scheduleName; // "forward-only": made for the micro-batches; empty: scheduleCsv
  std::string scheduleCsv;  // text of a schedule; empty: the plan's schedule
  uint64_t seed = 0;        // key of random operators
};

/// What one step measured, in nanoseconds.
struct StepStats {
  int64_t makespanNs = 0;
  std::vector<int64_t> stageBusyNs;
  double bubbleMakespan = 0;    // 1 - work / (ranks * makespan)
  double bubbleLongestSpan = 0; // the same with the longest rank span
};

/// A running pipeline. Owns its rank threads; destroy it from the thread that made it.
class Pipeline {
public:
  /// Reads and verifies the artifact, loads the stages, starts one thread per rank.
  /// Errors: those of openArtifact; Usage for options that do not fit the plan.
  static llvm::Expected<Pipeline> load(const std::string &directory,
                                       const PipelineOptions &options);
  Pipeline(Pipeline &&);
  Pipeline &operator=(Pipeline &&);
  ~Pipeline();

  const Plan &plan() const;
  /// What the reader of the artifact wants a person to know: unknown keys of a newer minor version.
  const std::vector<std::string> &warnings() const;
  /// Declared type of each model input, for bindArguments.
  std::vector<c10::TypePtr> inputTypes() const;

  int64_t microBatches() const;
  /// Intra-op threads of each rank, after defaults.
  int threads() const;
  /// Device of each rank, as "cpu" or "cuda:0".
  std::vector<std::string> devices() const;
  /// Peak memory of each rank: of the process on the CPU, of the device's allocator on a GPU.
  std::vector<int64_t> peakMemoryBytes() const;

  /// Runs one batch: `inputs` has one value per input of the signature. Returns the merged result
  /// tree. Tensors of the result lie on the device of the stage that makes them. Random operators
  /// draw from (seed, number of the call, micro-batch, ordinal), so two pipelines draw alike call
  /// by call. Call from one thread at a time. After an error other than Usage the pipeline is
  /// unusable and every later call returns that error. Errors: Usage (counts, sizes and dtypes that
  /// the plan does not allow, before anything runs); the first failure of any stage, naming stage,
  /// modules and micro-batch.
  llvm::Expected<c10::IValue> infer(const std::vector<c10::IValue> &inputs,
                                    StepStats *stats = nullptr);

private:
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec

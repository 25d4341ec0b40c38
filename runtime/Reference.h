// The unsplit model, run the way a pipeline runs its stages: the numbers that every artifact must
// equal.
#pragma once

#include "ir/SourceMode.h"
#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace pipec {

struct ReferenceOptions {
  std::string method = "forward";
  int64_t microBatches = 1;
  int threads = 0; // intra-op threads; 0: all cores
  std::string device = "cpu";
  uint64_t seed = 0;
  SourceMode mode; // training flags: as saved
  std::vector<std::pair<std::string, std::optional<int64_t>>>
      batchDims; // by argument; nullopt: given whole to every micro-batch
  std::vector<std::pair<std::string, MergeRule>> merges; // by the path of a result
};

/// A plain TorchScript file as one rank: graph optimiser off, no grad mode, keyed random operators,
/// micro-batches in order. One thread at a time; a call runs on the caller's thread and restores
/// its settings.
class Reference {
public:
  /// Errors: those of loadSource; Usage for an unknown method (naming those that exist), device or
  /// argument.
  static llvm::Expected<Reference> load(const std::string &path, const ReferenceOptions &options);
  Reference(Reference &&);
  Reference &operator=(Reference &&);
  ~Reference();

  /// Inputs from the method's schema; output tree, merge rules and batch dimensions from the first
  /// infer().
  const Signature &signature() const;
  std::vector<c10::TypePtr> inputTypes() const;
  int threads() const;
  std::string device() const;
  int64_t peakMemoryBytes() const;

  /// What infer() wants a person to know: how arguments are cut, and results that are not the whole
  /// batch's.
  const std::vector<std::string> &notes() const;
  const std::vector<std::string> &warnings() const;

  /// Runs one batch and merges the micro-batches' results. With several micro-batches the first
  /// call finds out on fresh copies of the model which inputs and results follow the batch
  /// (ir/batch/Discovery.h), so the model's state starts as saved. Errors: Usage as for
  /// Pipeline::infer; Other with the micro-batch and LibTorch's message. A call that fails leaves
  /// no trace, as there.
  llvm::Expected<c10::IValue> infer(const std::vector<c10::IValue> &inputs,
                                    StepStats *stats = nullptr);

private:
  struct Impl;
  llvm::Expected<c10::IValue> inferOnce(const std::vector<c10::IValue> &inputs, StepStats *stats);
  explicit Reference(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec

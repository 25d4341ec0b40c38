// Loss and gradients of the source model, which those of the stages must equal.
#pragma once

#include "compiler/ExampleRuns.h"
#include "ir/plan/LossLeaf.h"
#include "ir/plan/Plan.h"
#include "ir/torchfile/SourceCopies.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace pipec {

/// The gradient of one of the model's tensors; undefined: the backward does not reach it.
struct NamedGradient {
  std::vector<std::string> names; // all that the module has for this tensor; not those of its views
  at::Tensor gradient;
};

struct SourceStep {
  std::vector<c10::IValue> leaves; // of the result
  std::vector<NamedGradient> gradients;
};

/// A copy of the source, trained for micro-batches one after the other. One thread at a time.
class SourceTrainer {
public:
  /// Errors: those of SourceCopies::next.
  static llvm::Expected<SourceTrainer> load(SourceCopies &source);
  SourceTrainer(SourceTrainer &&);
  SourceTrainer &operator=(SourceTrainer &&);
  ~SourceTrainer();

  /// Forward, and back from output leaf `loss` with `scale`. Grad mode and optimiser flag are the
  /// calling thread's. Errors: Usage with LibTorch's message, from the forward also with the
  /// arguments and what an author can do.
  llvm::Expected<SourceStep> run(const Signature &signature, std::vector<c10::IValue> inputs,
                                 size_t loss, const at::Tensor &scale);

private:
  struct Impl;
  explicit SourceTrainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Where the backward of a call starts: the mean of a step weighs its micro-batches by samples; of
/// a pair (sum, count) each counts fully, and the sum of gradients is divided later.
at::Tensor rootScale(const ExampleRun &run, size_t call, bool isPair, const at::Tensor &loss);

/// Trains a copy of the source on a step whose micro-batches are the calls of `run`. Random
/// operators draw from kExampleSeed in each call. Errors: those of SourceTrainer.
llvm::Expected<std::vector<SourceStep>> trainSource(SourceCopies &copies,
                                                    const Signature &signature,
                                                    const LossLeaves &loss, const ExampleRun &run);

} // namespace pipec

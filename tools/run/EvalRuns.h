// The evaluations of pipe-run --train --eval-data.
#pragma once

#include "tools/run/Trainer.h"
#include "tools/run/TrainingBatches.h"

namespace pipec {

/// The samples of an evaluation, in batches, and what each evaluation gave.
class EvalRuns {
public:
  /// `batch`: samples of one call; 0: all. Errors: those of reading and binding the file.
  static llvm::Expected<EvalRuns> read(const Trainer &trainer, const std::string &path,
                                       int64_t batch, LossReduction reduction);

  /// Evaluates the first and the last batch and forgets the results: what is wrong with the data or
  /// with eval mode is found before the first step. Errors: those of run().
  llvm::Error tryOut(const Trainer &trainer) const;

  /// Evaluates all samples and prints one line. The loss is the mean of those of the batches,
  /// weighted by samples, or their sum. Errors: those of Trainer::evaluate; Usage if eval mode
  /// returns no loss.
  llvm::Error run(const Trainer &trainer, int64_t step, bool json);

  /// Of all evaluations: step, loss, samples, eval_ms.
  llvm::json::Array takeLines() { return std::move(lines_); }

private:
  EvalRuns(TrainingBatches batches, LossReduction reduction)
      : batches_(std::move(batches)), reduction_(reduction) {}
  llvm::Expected<Evaluation> evaluate(const Trainer &trainer, int64_t batch) const;

  TrainingBatches batches_;
  LossReduction reduction_;
  llvm::json::Array lines_;
};

} // namespace pipec

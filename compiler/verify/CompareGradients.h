// Compares the training of the stages with that of the source: the loss and every gradient.
#pragma once

#include "compiler/CompileHook.h"
#include "compiler/verify/SourceGradients.h"
#include "ir/Model.h"
#include "ir/autograd/SerialTrainer.h"

#include <map>

namespace pipec {

/// What was compared.
struct ComparedGradients {
  size_t gradients = 0;                     // that reach a tensor, of one run
  size_t tied = 0;                          // of these: summed over stages, in another order
  std::map<std::string, double> tolerances; // of these, by dtype: tiedTolerance
  std::vector<std::string> whyWhole; // per stage: why its backward cannot be split; empty: it can
  size_t splitRuns = 0;              // runs that were compared with split backwards, too
  std::vector<std::string> warnings; // of a loss that is not finite, and of compareParts()
};

/// The runs to compare: the example, and the first run of each other batch size. The forwards
/// already show that other values of the same sizes give equal bits.
std::vector<ExampleRun> runsToTrain(llvm::ArrayRef<ExampleRun> runs);

/// Trains the stages in a directory, one after the other, and the source on the same micro-batches.
/// The source follows what was asked for, the stages what plan.training says: which result is the
/// loss, how micro-batches weigh, which stages run again, from which stages a weight's gradient
/// comes. The calls of a run are the micro-batches of a step: the source goes forwards and
/// backwards micro-batch by micro-batch, the stages go back after all forwards. Random operators
/// draw from one seed. Every result and gradient must be bit-identical; a gradient that is summed
/// over several stages may be off by tiedTolerance.
/// Runs share the cores, unless they draw random numbers; what is found, and the error of several,
/// is that of the runs in their order.
///
/// Errors of both steps: Internal naming the first gradient that differs and both numbers; Usage
/// where the source's own backward fails.
class GradientComparison {
public:
  /// All but `loss` must outlive it. `stages`: what the files hold. `loss`: what was asked for.
  GradientComparison(SourceCopies &source, const std::string &directory, const StagedModel &stages,
                     Plan &plan, const LossLeaves &loss, const CompileHook &hook);

  /// Whole backwards, in all runs. Sets requiresGrad of plan.channels as the runs show it.
  llvm::Error compareWhole(llvm::ArrayRef<ExampleRun> runs);
  /// Split backwards, in the same runs (of large models on the example only); gradients come back
  /// on the channels that the plan says. A stage for which plan.training says why it is whole stays
  /// whole.
  llvm::Error compareSplit();
  /// Adds warningOnParts(). `runs`: all that the source made. `norms`: of DiscoveryOptions.
  void compareParts(llvm::ArrayRef<ExampleRun> runs, const std::string &norms);
  ComparedGradients take();

private:
  struct OfRun {
    ComparedGradients compared;
    std::vector<bool> requiresGrad; // per channel: what was sent does
  };

  llvm::Error compareAll(llvm::ArrayRef<ExampleRun> runs,
                         llvm::function_ref<llvm::Error(size_t, OfRun &)> compare);
  void add(OfRun &found);
  llvm::Expected<std::vector<SourceStep>> trainSource(const ExampleRun &run) const;
  llvm::Expected<std::vector<SourceStep>> sourceSteps(const ExampleRun &run) const;
  llvm::Error trainStages(const ExampleRun &run, llvm::ArrayRef<SourceStep> expected,
                          std::vector<bool> split, bool followsFlags, OfRun &found) const;
  llvm::Error compareForward(const ExampleRun &run, size_t call, const SourceStep &source,
                             const TrainedMicroBatch &stages, OfRun &found) const;
  llvm::Error compareGradients(const ExampleRun &run, size_t call, const SourceStep &source,
                               const TrainedMicroBatch &stages, bool isSplit, OfRun &found) const;
  std::string lossWords(const LossLeaves &loss) const;
  void noteFlags(const TrainedMicroBatch &step, OfRun &found) const;

  SourceCopies &source_;
  const std::string &directory_;
  const StagedModel &stages_;
  std::optional<SerialStages> files_; // once they are read
  Plan &plan_;
  LossLeaves loss_;
  const CompileHook &hook_;
  size_t threads_;
  std::vector<std::pair<ExampleRun, std::vector<SourceStep>>> compared_; // the example first
  ComparedGradients result_;
};

} // namespace pipec

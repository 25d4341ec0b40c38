#include "compiler/StageRuns.h"

#include "compiler/ExampleRuns.h"
#include "compiler/LargeModels.h"
#include "compiler/ParallelRuns.h"
#include "compiler/RunProgress.h"
#include "ir/InferenceSettings.h"
#include "ir/artifact/SerialRunner.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/batch/discovery/SizeTrial.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/CompareValues.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <set>

namespace pipec {

namespace {

bool keepsState(const Plan &plan) {
  return llvm::any_of(plan.stages,
                      [](const StagePlan &stage) { return !stage.effects.stateWrites.empty(); });
}

/// The tensors that one call sent, by channel.
using SentSpecs = std::vector<std::optional<TensorSpec>>;

class StageRuns {
public:
  StageRuns(const std::string &directory, const Plan &plan, llvm::ArrayRef<ExampleRun> runs,
            const std::map<std::string, at::Tensor> &instead)
      : directory_(directory), plan_(plan), runs_(runs), instead_(instead) {
    for (const ExampleRun &run : runs)
      sent_.emplace_back(run.calls.size());
  }

  llvm::Error run(const ProgressCallback &callback) {
    InferenceSettings settings(/*intraOpThreads=*/1); // as the source ran
    stages_ = TRY(SerialStages::load(directory_, plan_, instead_));
    makeJobs();
    const size_t threads = stages_->mayUseGenerator() ? 1 : threadsForRuns();
    if (!keepsState(plan_))
      runner_.emplace(plan_, std::move(*stages_).take());
    RunProgress progress(callback, "running the stages", elements_);
    return forEachParallel(elements_, threads, [&](size_t index) {
      llvm::Error error = runJob(index);
      progress.ended(index);
      return error;
    });
  }

  /// Per run and call.
  const std::vector<std::vector<SentSpecs>> &sent() const { return sent_; }

private:
  /// Calls of one run, in order.
  struct Job {
    size_t run, begin, end;
  };

  /// Calls of stages without state need no order.
  void makeJobs() {
    for (size_t r = 0; r < runs_.size(); ++r) {
      const size_t calls = runs_[r].calls.size(), each = keepsState(plan_) ? calls : 1;
      for (size_t c = 0; c < calls; c += each) {
        jobs_.push_back({r, c, c + each});
        elements_.push_back(
            countElementsOfCalls(llvm::ArrayRef<Values>(runs_[r].calls).slice(c, each)));
      }
    }
  }

  llvm::Error runJob(size_t index) {
    if (runner_)
      return runOn(*runner_, jobs_[index]);
    std::vector<StageModule> stages = TRY(stages_->copy());
    SerialRunner fresh(plan_, std::move(stages));
    return runOn(fresh, jobs_[index]);
  }

  llvm::Error runOn(SerialRunner &runner, const Job &job) {
    const ExampleRun &source = runs_[job.run];
    for (size_t c = job.begin; c < job.end; ++c) {
      at::manual_seed(kExampleSeed);
      llvm::Expected<SerialRunner::Result> result = runner.run(ownCopies(source.calls[c]));
      if (!result) {
        // The source ran on the same inputs, so the fault is pipec's.
        ErrorText text = describe(result.takeError());
        return makeError(text.code == ExitCode::OutOfMemory ? text.code : ExitCode::Internal,
                         "running the stages on the example inputs: " + text.message, text.help);
      }
      noteSent(sent_[job.run][c], *result);
      TRY(compareLeaves(source, c, result->leaves));
    }
    return llvm::Error::success();
  }

  llvm::Error compareLeaves(const ExampleRun &source, size_t call,
                            llvm::ArrayRef<c10::IValue> leaves) const {
    for (size_t i = 0; i < leaves.size(); ++i) {
      Comparison comparison = compare(source.leaves[call][i], leaves[i], 0.0, 0.0);
      if (!comparison.equal)
        return makeError(
            ExitCode::Internal,
            fmt::format(
                "the stages do not compute what the model computes: result {} at batch {}{}: {}",
                outputPath(plan_.signature, i), source.batch[call],
                source.otherSizes ? " and other sizes" : "", comparison.firstDifference));
    }
    return llvm::Error::success();
  }

  void noteSent(SentSpecs &specs, const SerialRunner::Result &result) const {
    specs.resize(plan_.channels.size());
    for (size_t c = 0; c < plan_.channels.size(); ++c)
      if (const c10::IValue &value = result.sent[c];
          plan_.channels[c].kind == Channel::Kind::Activation && value.isTensor() &&
          value.toTensor().defined())
        specs[c] = specOf(value.toTensor());
  }

  const std::string &directory_;
  const Plan &plan_;
  llvm::ArrayRef<ExampleRun> runs_;
  const std::map<std::string, at::Tensor> &instead_;
  std::optional<SerialStages> stages_;
  std::optional<SerialRunner> runner_; // of all jobs; none: the stages keep state
  std::vector<Job> jobs_;
  std::vector<int64_t> elements_; // of the arguments of each job, a measure of its time
  std::vector<std::vector<SentSpecs>> sent_;
};

/// For a channel that sent a tensor in every call. For other channels the runs do not show how
/// sizes follow the batch.
void fillSpec(Channel &channel, size_t index, int64_t exampleBatch, llvm::ArrayRef<ExampleRun> runs,
              llvm::ArrayRef<std::vector<SentSpecs>> sent) {
  std::vector<std::pair<int64_t, TensorSpec>> atExample, others; // by batch
  for (size_t r = 0; r < runs.size(); ++r)
    for (size_t c = 0; c < runs[r].calls.size(); ++c) {
      if (!sent[r][c][index])
        return;
      (runs[r].otherSizes ? others : atExample).emplace_back(runs[r].batch[c], *sent[r][c][index]);
    }
  if (atExample.empty())
    return;
  channel.tensor = fitSpec(atExample);
  if (!channel.tensor.known)
    return; // dtype or rank depend on the sizes
  for (const auto &[batch, spec] : atExample)
    if (batch == exampleBatch || channel.tensor.bytes == 0)
      channel.tensor.bytes = spec.bytes;
  for (const auto &[batch, spec] : others)
    widen(channel.tensor, spec, batch);
}

} // namespace

std::vector<ExampleRun> runsToRepeat(std::vector<ExampleRun> runs, const Plan &plan) {
  if (parameterBytes(plan) < kLargeModelBytes || keepsState(plan))
    return runs;
  std::set<std::string> seen; // sizes, and values that are no tensors
  for (ExampleRun &run : runs) {
    ExampleRun kept;
    kept.otherSizes = run.otherSizes;
    for (size_t c = 0; c < run.calls.size(); ++c) {
      if (!seen.insert(argumentsText(plan.signature, run.calls[c])).second)
        continue;
      kept.batch.push_back(run.batch[c]);
      kept.calls.push_back(std::move(run.calls[c]));
      kept.leaves.push_back(std::move(run.leaves[c]));
    }
    run = std::move(kept);
  }
  llvm::erase_if(runs, [](const ExampleRun &run) { return run.calls.empty(); });
  return runs;
}

llvm::Error runStages(const std::string &directory, Plan &plan, const std::vector<ExampleRun> &runs,
                      const std::map<std::string, at::Tensor> &instead,
                      const ProgressCallback &progress) {
  StageRuns stages(directory, plan, runs, instead);
  TRY(stages.run(progress));
  for (size_t c = 0; c < plan.channels.size(); ++c)
    fillSpec(plan.channels[c], c, plan.signature.batchSize, runs, stages.sent());
  return llvm::Error::success();
}

} // namespace pipec

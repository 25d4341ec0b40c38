// The data of a pipeline. Only for runtime/.
#pragma once

#include "ir/batch/BatchSplit.h"
#include "runtime/Pipeline.h"
#include "runtime/PipelineCore.h"
#include "runtime/RankThreads.h"

#include <atomic>
#include <utility>

namespace pipec {

struct PipelineTraining;
struct PipelineEvaluation;
struct TrainingRecord;

struct Pipeline::Impl {
  /// Keeps other threads out from the begin of a call to its end.
  class Call;
  std::atomic<bool> inUse = false; // by a call
  std::shared_ptr<PipelineCore> core;
  std::unique_ptr<RankThreads> threads;
  RankThreads::Job runRanks; // of every step
  int threadsPerRank = 1;
  bool anyNumber = true;    // the schedule fits any number of micro-batches
  int64_t wanted = 0;       // micro-batches, of all replicas; 0: determined by the batch
  int64_t microBatches = 1; // of the last call, of all replicas
  uint64_t calls = 0;       // successful calls
  bool failed = false;      // the last call failed, and its state is not completely restored
  std::optional<ErrorText> unusable;
  size_t compiledRanks = 0;                       // before a schedule placed the stages anew
  bool isPlanned = true;                          // schedule.csv is for the plan's ranks
  std::string scheduleName;                       // of the generator, while anyNumber
  std::shared_ptr<PipelineTraining> training;     // null: inference
  std::shared_ptr<PipelineEvaluation> evaluation; // null: none

  // PipelineImpl.cpp
  static llvm::Expected<Pipeline> load(Artifact artifact, const PipelineOptions &options);
  llvm::Error openDevices(const PipelineOptions &options);
  llvm::Error loadStages();
  llvm::Error deliverWeights(size_t replica);
  void startThreads(const PipelineOptions &options);
  // PipelineSchedule.cpp
  llvm::Error placeRanks(const PipelineOptions &options);
  llvm::Error prepareProgram(const PipelineOptions &options);
  llvm::Expected<Schedule> generatedSchedule(int64_t number) const;
  llvm::Error prepareFor(int64_t number);
  // PipelineCalls.cpp
  llvm::Expected<BatchParts> split(const std::vector<c10::IValue> &inputs);
  llvm::Error runStep(const std::vector<c10::IValue> &inputs);
  llvm::Error finishDevices();
  llvm::Error giveAway(c10::IValue &result);
  llvm::Error runBatch(BatchParts parts, const std::vector<c10::IValue> &inputs, StepStats *stats);
  void measure(StepStats &stats, int64_t makespanNs);
  llvm::Error endCall(llvm::Error error);
  llvm::Error usableAgain();
  llvm::Error restore();
  // PipelineTraining.cpp, PipelineSteps.cpp, checkpoint/PipelineCheckpoint.cpp
  int64_t replicas() const { return static_cast<int64_t>(core->replicas); }
  llvm::Error startTraining(const TrainingOptions &options);
  llvm::Error addOptimizers(const OptimizerSettings &settings, const ParameterNames &names,
                            const std::vector<bool> &isFrozen,
                            const std::vector<std::unique_ptr<StageTraining>> &stages);
  llvm::Error canStep();
  llvm::Error runBatches(llvm::ArrayRef<int64_t> numbers, StepStats *stats);
  llvm::Expected<TrainedStep> step(BatchParts parts, llvm::ArrayRef<int64_t> numbers,
                                   StepStats *stats);
  llvm::Expected<BatchParts> given(const std::vector<std::vector<c10::IValue>> &cut);
  TrainingRecord record();
  // PipelineEvaluation.cpp
  llvm::Error startEvaluation(const PipelineOptions &options);
};

class Pipeline::Impl::Call {
public:
  /// Errors: Usage if another thread is in a call, or for null, which is a pipeline that was moved
  /// from.
  static llvm::Expected<Call> begin(Impl *impl);
  /// The error of a pipeline that was moved from.
  static llvm::Error movedFrom();
  Call(Call &&other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Call &operator=(Call &&) = delete;
  ~Call() {
    if (impl_)
      impl_->inUse.store(false, std::memory_order_release);
  }

private:
  explicit Call(Impl *impl) : impl_(impl) {}
  Impl *impl_;
};

} // namespace pipec

// One stage on its device: the module, its stream, its random keys.
#pragma once

#include "ir/artifact/StageModule.h"
#include "ir/autograd/StageTape.h"
#include "ir/autograd/StateVersions.h"
#include "ir/autograd/TapeMemory.h"
#include "ir/schedule/Program.h"
#include "runtime/Device.h"
#include "runtime/RandomKey.h"
#include "runtime/StateCopy.h"
#include "runtime/TrainingOptions.h"
#include "runtime/training/DeferredNorm.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace pipec {

/// A value with the point in its stage's stream after which it is ready.
struct ReadyValue {
  c10::IValue value;
  Fence ready;
};

/// Runs the forward of one stage, in a training with a tape. After load, only its rank's thread
/// uses it.
class StageExecutor {
public:
  /// `plan` must outlive the executor. Errors: those of StageModule::load and moveTo.
  static llvm::Expected<std::unique_ptr<StageExecutor>> load(const std::string &path,
                                                             const StagePlan &plan, size_t index,
                                                             std::shared_ptr<Device> device);

  /// Runs the stage on one micro-batch after its inputs are ready. `busy` gets the fences before
  /// and after. Takes the inputs out of `inputs`. Errors: the first failure, starting with "stage 2
  /// (encoder.layers.3..encoder.layers.5), micro-batch 1: ".
  llvm::Expected<std::vector<c10::IValue>> forward(const RandomKey &key,
                                                   llvm::MutableArrayRef<ReadyValue> inputs,
                                                   std::pair<Fence, Fence> &busy);

  /// The same in a training: with a graph, on the tape. Grad mode is the calling thread's. The
  /// state of a stage that writes it in place is a copy from then on, because the backwards of
  /// earlier micro-batches may still need its old values. `isAgain`: a recompute, without the
  /// prints and warnings of the model.
  llvm::Expected<StageTape> record(const RandomKey &key, llvm::MutableArrayRef<ReadyValue> inputs,
                                   bool isAgain, std::pair<Fence, Fence> &busy);

  /// Takes back the memory of a forward's outputs, for the next forward.
  void reuse(std::vector<c10::IValue> outputs) {
    values_ = std::move(outputs);
    values_.clear();
  }
  /// Takes back a list of gradients that a tape gave.
  void reuse(std::vector<ValueGradients> gradients) { tapes_->giveBack(std::move(gradients)); }

  /// Of record() from now on.
  void setPrecision(Precision precision) { precision_ = precision; }

  /// BatchNorm::Deferred from now on: returns how many batch norms the stage has. Call before the
  /// first record(). updateNorms() ends a step, after all its backwards. Errors: BadArtifact for
  /// statistics that are no attributes of the stage.
  size_t deferNorms();
  llvm::Error updateNorms();

  /// Adds the state that the stage writes, by plan.effects.stateWrites; its memory is not copied.
  void addState(std::vector<c10::IValue> &values) const;
  /// Exchanges the state with `state`.
  void swapState(std::vector<c10::IValue> &state);

  /// Runs `body` on the stage's stream. Errors: its own and LibTorch's exceptions, with the stage
  /// and the micro-batch.
  llvm::Error onStream(int64_t microBatch, const char *what,
                       llvm::function_ref<llvm::Error()> body);

  /// The first forward of a call copies the state that the stage writes. keepState ends a
  /// successful call and drops the copy. restoreState ends a failed call and restores the state;
  /// the stage's stream must be idle. Errors: those of copying.
  void keepState() {
    before_.forget();
    forgetNorms();
  }
  llvm::Error restoreState();

  /// Whether an operator of the stage may write into the stage's inputs.
  bool writesInPlace() const { return writesInPlace_; }

  /// Makes a value of another stream of the device usable on the current one.
  void receive(ReadyValue &input);

  /// "stage 2 (encoder.layers.3..encoder.layers.5)"
  const std::string &title() const { return title_; }
  size_t stream() const { return stream_; }
  /// Values of other ranks arrive on streams of their own, one per direction: a copy between
  /// devices then waits for its source, and not for the stage's work before it.
  size_t arrivalsOf(Payload payload) const {
    return payload == Payload::Activation || payload == Payload::Weight ? forwardArrivals_
                                                                        : backwardArrivals_;
  }
  Device &device() { return *device_; }
  StageModule &module() { return module_; }

private:
  std::vector<c10::IValue> bringAll(llvm::MutableArrayRef<ReadyValue> inputs);
  std::shared_ptr<const EnteredWeights> enteredWeights(llvm::ArrayRef<TapedAttribute> attributes);
  void setState(std::vector<c10::IValue> state);
  void copyState();
  void beginNorms();
  llvm::Error noteNorms(int64_t microBatch, std::vector<NormCall> calls,
                        llvm::ArrayRef<TapedAttribute> attributes);
  void forgetNorms();
  /// Copies outputs that later micro-batches would change by writing the stage's state.
  void keepResults(std::vector<c10::IValue> &outputs);

  StageExecutor(StageModule module, const StagePlan &plan, size_t index,
                std::shared_ptr<Device> device);

  StageModule module_;
  std::shared_ptr<Device> device_;
  const StagePlan *plan_;
  std::string title_;
  size_t stream_, forwardArrivals_, backwardArrivals_;
  std::vector<size_t> written_; // attributes
  bool writesInPlace_ = false, writesStateInPlace_ = false;
  std::vector<c10::IValue> values_;        // empty: memory of the next forward
  std::vector<TapedAttribute> attributes_; // empty: memory of the next record()
  std::shared_ptr<TapeMemory> tapes_ = std::make_shared<TapeMemory>();
  StateRenewal renewal_;
  std::shared_ptr<const EnteredWeights> weights_; // of the last tape
  Precision precision_ = Precision::Full;
  bool defersNorms_ = false;
  /// For one step: the calls of each batch norm, by the attributes of its statistics, and the
  /// update counts before the step.
  using NormPorts = std::pair<size_t, size_t>;                               // mean, variance
  std::map<int64_t, std::vector<std::pair<NormPorts, NormCall>>> normCalls_; // by micro-batch
  std::map<size_t, at::Tensor> countedBefore_;                               // by attribute
  std::vector<NormCall> normMemory_; // empty: memory of the next record()
  StateCopy before_;                 // of the call in progress
  std::vector<c10::IValue> state_;   // empty: memory for a list of the state
};

} // namespace pipec

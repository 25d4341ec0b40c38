// The training of one stage: a tape per micro-batch in flight, the gradients of its weights, its
// part of the optimizer.
#pragma once

#include "ir/autograd/StageTape.h"
#include "ir/autograd/StateVersions.h"
#include "runtime/StageExecutor.h"
#include "runtime/training/ParameterGroups.h"

#include <memory>
#include <optional>
#include <vector>

namespace pipec {

/// A tensor with the point after which it is ready.
struct ReadyTensor {
  at::Tensor tensor;
  Fence ready;
  size_t stage = 0; // in a sum over stages: the one that found it
};

/// One thread at a time: that of the stage's rank.
///
///     F 0   F 1   ...            tapes by micro-batch
///     B 0   or   I 0 ... W 0     gradients of a micro-batch, folded in the order of micro-batches
///     gradient(a)                their sum, after the last one; those of other stages that have
///                                the same weight are added
///     optimize()
class StageTraining {
public:
  /// `executor` and `plan` must outlive it. canSplit: false if the plan says that I and W cannot be
  /// told apart; I is then the whole backward, and W nothing.
  StageTraining(StageExecutor &executor, const StagePlan &plan, bool canSplit);

  /// Ends the use of `parameters` that are not trained: attributes. Call before the first step.
  void freeze(size_t attribute);
  /// This stage updates the tensor of an attribute: the parameter with this number and first name.
  /// Errors: those of ownedParameter().
  llvm::Error addOptimizer(const OptimizerSettings &settings, size_t parameter,
                           const std::string &name, size_t attribute);

  /// Forgets what is left of a step.
  void begin();
  /// The next backwards are of micro-batches from `first` on, after all that came before.
  void foldFrom(int64_t first) { nextToFold_ = first; }

  /// F. `recomputes`: the tape is made by a recompute before the backward. Errors: those of
  /// StageExecutor::record.
  llvm::Expected<std::vector<c10::IValue>> forward(const RandomKey &key,
                                                   llvm::MutableArrayRef<ReadyValue> inputs,
                                                   bool recomputes, std::pair<Fence, Fence> &busy);
  /// R: the forward once more, with the same random numbers, from the state that it saw; nothing
  /// else changes.
  llvm::Error recompute(int64_t microBatch, std::pair<Fence, Fence> &busy);

  /// B, or I if `split`: gradients by input port. Arguments as StageTape::backward.
  llvm::Expected<std::vector<ValueGradients>> backward(int64_t microBatch, bool split,
                                                       std::vector<ValueGradients> &&ofOutputs,
                                                       std::vector<ValueGradients> &&later,
                                                       std::pair<Fence, Fence> &busy);
  /// W, after I.
  llvm::Error weightGradients(int64_t microBatch, std::pair<Fence, Fence> &busy);

  /// The gradient of an attribute, after all backwards: the sum over micro-batches of this stage,
  /// and after replace() of all stages that share it. Undefined: none.
  const at::Tensor &gradient(size_t attribute) const { return sums_[attribute]; }
  /// Replaces it by the sum over `parts` in their order: those of stages, from the last stage to
  /// the first, or those of replicas. The result has memory of its own.
  void replace(size_t attribute, llvm::ArrayRef<ReadyTensor> parts);
  /// A fence after all work of the stage so far.
  Fence ready();

  /// Copies gradient() for firstGradient(), which then does not change with clipping.
  void keepGradients();
  const at::Tensor &firstGradient(size_t attribute) const {
    return kept_.empty() ? sums_[attribute] : kept_[attribute];
  }

  /// OPT. Expects that the host has waited for what scaled the gradients. Errors: LibTorch's
  /// message.
  llvm::Error optimize(double rateFactor);

  /// The optimizer's state of an attribute's tensor, for a checkpoint; empty: none.
  OptimizerState optimizerState(size_t attribute) const;
  /// As Optimizer::setState; without an optimizer of this attribute nothing happens.
  llvm::Error setOptimizerState(size_t attribute, OptimizerState state);
  /// As Optimizer::checkState; without an optimizer of this attribute all is well.
  llvm::Error checkOptimizerState(size_t attribute, const OptimizerState &state);

  StageExecutor &executor() { return executor_; }

private:
  /// A forward that will run again.
  struct Again {
    RandomKey key;
    std::vector<ReadyValue> inputs;
    std::vector<c10::IValue> state;
  };
  /// A micro-batch between its forward, or the recompute, and its last backward.
  struct Flight {
    int64_t microBatch = 0;
    std::optional<StageTape> tape;  // none after a whole backward
    bool hasInputGradients = false; // I has run, W has not
  };
  /// Gradients of a micro-batch that wait for those of earlier ones.
  struct Early {
    int64_t microBatch = 0;
    std::vector<ValueGradients> found;
  };

  llvm::Error noteTape(int64_t microBatch, StageTape tape);
  /// Null: none.
  Flight *flightOf(int64_t microBatch);
  void end(Flight &flight);
  /// Notes a forward that has not begun.
  void noteAgain(const RandomKey &key, llvm::ArrayRef<ReadyValue> inputs);
  /// Adds the gradient of a weight while the backward goes on: it is still in the caches, and its
  /// memory is free at once. Returns whether it did. A micro-batch whose turn has not come is for
  /// fold(), and so is what is no tensor.
  bool addNow(int64_t microBatch, size_t attribute, at::Tensor &gradient);
  llvm::Error fold(int64_t microBatch, std::vector<ValueGradients> found);
  llvm::Error addOne(std::vector<ValueGradients> found);
  /// The place in owned_; nullopt: another stage owns it, or none trains it.
  std::optional<size_t> ownedNumber(size_t attribute) const;

  StageExecutor &executor_;
  const StagePlan &plan_;
  bool canSplit_;
  // In no order: a micro-batch is looked up among the few that are there.
  std::vector<Flight> flights_;
  std::vector<Again> again_;
  std::vector<Early> early_;
  std::vector<Again> spareAgain_;   // with empty lists: their memory
  std::vector<c10::IValue> copied_; // empty: memory of the next noteAgain()
  SharingCopies sharing_;
  std::vector<at::Tensor> sums_;    // per attribute
  std::vector<at::Tensor> kept_;    // copies
  std::vector<at::Tensor> updates_; // empty: memory of the next optimize()
  int64_t nextToFold_ = 0;
  std::vector<size_t> owned_;
  Optimizer optimizer_; // of the tensors of owned_
};

} // namespace pipec

// One loaded stage file: its pipec_forward with the weights it holds.
#pragma once

#include "ir/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace torch::jit {
struct Block;
struct Module;
} // namespace torch::jit

namespace pipec {

/// Runs a method as LibTorch does, except that a forked call runs on this thread at the place where
/// it is forked, so its draws and writes have a fixed order. Grad mode, threads and optimiser flag
/// are those of the calling thread. Throws LibTorch's exceptions.
c10::IValue runMethod(const torch::jit::Module &module, const std::string &method,
                      std::vector<c10::IValue> arguments);

/// A stage file of an artifact, ready to run. One thread at a time. After prepare(), several
/// threads may run a stage that writes no state.
class StageModule {
public:
  /// Loads `path` (mapped) as the stage that `plan` describes. Attributes that arrive on a weight
  /// channel start empty and are filled by setAttribute. Errors: BadArtifact if the file cannot be
  /// read or is not what the plan says, as checkStage.
  static llvm::Expected<StageModule> load(const std::string &path, const StagePlan &plan);
  StageModule(StageModule &&);
  StageModule &operator=(StageModule &&);
  ~StageModule();

  /// Does the one-time work of the first run. Errors: Usage with LibTorch's message.
  llvm::Error prepare();

  /// Makes the stage print nothing and warn of nothing. Call before the first run.
  void silence();

  /// Whether copy() can make copies whose runs do not affect each other, see
  /// ir/torchfile/ModuleCopy.h.
  bool canBeCopied() const;
  /// A stage with the same operators, whose attributes are those of the file. Both share the graph:
  /// neither may be rewritten or moved later. The stage must not have run. Any thread, several at
  /// once. Errors: those of copyOf().
  llvm::Expected<StageModule> copy() const;

  /// Lets `edit` change the operators that run() runs. Call before the first run.
  void rewrite(llvm::function_ref<void(torch::jit::Block &)> edit);

  /// Whether the stage may draw random numbers that concurrent runs on other threads would change.
  bool mayUseGenerator() const;

  /// Runs pipec_forward on one micro-batch: takes one value per input port and returns one per
  /// output port, in the memory of the inputs. State outputs are written to the attributes before
  /// it returns. Grad mode, threads and optimiser flag are those of the calling thread, which has
  /// the same grad mode afterwards. Errors: Usage with LibTorch's message; the caller adds stage
  /// and micro-batch.
  llvm::Expected<std::vector<c10::IValue>> run(std::vector<c10::IValue> inputs);
  /// The same with a value per weight use instead of the attributes' own. `quietly`: without
  /// the prints and warnings of the model. Errors: also Unsupported for state with an autograd
  /// graph, into which the next micro-batch would walk back.
  llvm::Expected<std::vector<c10::IValue>>
  run(std::vector<c10::IValue> inputs, llvm::ArrayRef<c10::IValue> uses, bool quietly = false);

  /// Whether the stage may write into the memory of its state. False: it only replaces whole
  /// values.
  bool writesInPlace() const;

  const c10::IValue &attribute(size_t index) const;
  void setAttribute(size_t index, c10::IValue value);
  /// Whether the file holds a tensor of this name that is neither a parameter nor a buffer of the
  /// model.
  bool isPlain(const std::string &name) const;
  /// Its declared type; null if the file does not hold it.
  c10::TypePtr attributeType(size_t index) const;
  /// Declared type of each input port.
  std::vector<c10::TypePtr> inputTypes() const;
  /// Moves attributes to a device and points device constants of the graph at it.
  llvm::Error moveTo(const std::string &device);

private:
  struct Impl;
  explicit StageModule(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Sets the attributes that arrive on weight channels to the tensors of the stages that send them.
void shareWeights(const Plan &plan, std::vector<StageModule> &stages);

} // namespace pipec

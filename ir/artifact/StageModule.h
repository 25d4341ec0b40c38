// One loaded stage file: its pipec_forward with the weights it holds.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// Runs a method as LibTorch does, but a forked call where it is forked, on this thread: what it
/// draws and writes then has an order. Grad mode, threads and optimiser flag are the calling
/// thread's. Throws LibTorch's exceptions.
c10::IValue runMethod(const torch::jit::Module &module, const std::string &method,
                      std::vector<c10::IValue> arguments);

/// A stage file of an artifact, ready to run. One thread at a time; after prepare() several may run
/// a stage that writes no state.
class StageModule {
public:
  /// Loads `path` (mapped) as the stage `plan` describes. Attributes that arrive on a weight
  /// channel start empty: setAttribute. Errors: BadArtifact when it cannot be read or is not what
  /// the plan says, as checkStage.
  static llvm::Expected<StageModule> load(const std::string &path, const StagePlan &plan);
  StageModule(StageModule &&);
  StageModule &operator=(StageModule &&);
  ~StageModule();

  /// What the first run would do besides. Errors: Usage with LibTorch's message.
  llvm::Error prepare();

  /// Before the first run: from then on it neither prints nor warns.
  void silence();

  /// Whether it may draw random numbers that runs on other threads at the same time would change.
  bool mayUseGenerator() const;

  /// Runs pipec_forward on one micro-batch: one value per input port in, one per output port out;
  /// state outputs are written back to the attributes before it returns. Grad mode, threads and
  /// optimiser flag are the calling thread's. Errors: Usage with LibTorch's message; the caller
  /// adds stage and micro-batch.
  llvm::Expected<std::vector<c10::IValue>> run(std::vector<c10::IValue> inputs);

  /// Whether the stage may write into the memory of its state. False: it only replaces it.
  bool writesInPlace() const;

  const c10::IValue &attribute(size_t index) const;
  void setAttribute(size_t index, c10::IValue value);
  /// Declared type of each input port.
  std::vector<c10::TypePtr> inputTypes() const;
  /// Moves attributes to a device and points device constants of the graph at it.
  llvm::Error moveTo(const std::string &device);

private:
  struct Impl;
  explicit StageModule(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec

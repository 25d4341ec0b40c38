// The data of a reference. Only for runtime/.
#pragma once

#include "ir/batch/BatchSplit.h"
#include "ir/batch/discovery/Discovery.h"
#include "ir/torchfile/JoinLoss.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/Device.h"
#include "runtime/Reference.h"

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace pipec {

namespace jit = torch::jit;

struct ReferenceTraining;
struct TrainingRecord;

/// The results of the micro-batches of one call.
struct Reference::Inferred {
  std::vector<std::vector<c10::IValue>> leaves; // per micro-batch
  std::vector<int64_t> samples;
};

struct Reference::Impl {
  std::string path;
  ReferenceOptions options;
  std::shared_ptr<Device> device;
  size_t stream = 0;
  int threads = 1;
  std::optional<jit::Module> module;
  std::optional<JoinedLoss> loss; // that the module is joined with
  bool draws = false;
  bool keepsState = false;       // may write its attributes
  bool writesParameters = false; // as a model that moves its target network
  Signature signature;
  std::vector<bool> batchDimGiven;
  std::vector<std::vector<PartDim>> partsGiven; // by argument
  std::vector<c10::TypePtr> types;
  bool known = false;      // outputs and batch dimensions
  std::vector<bool> shown; // per result: test runs confirm its merge rule
  bool drew = false;       // any random number so far
  bool wrote = false;      // any state in a test run
  bool saidMode = false;   // noteTrainingMode() was called
  std::vector<std::string> notes, warnings;
  uint64_t calls = 0;
  std::shared_ptr<ReferenceTraining> training; // null: inference
  std::shared_ptr<Reference> evaluation;       // the model in eval mode; null: not evaluated yet

  // ReferenceImpl.cpp
  llvm::Expected<SourceModule> freshSource() const;
  llvm::Expected<jit::Module> freshModule() const;
  llvm::Error readSignature();
  llvm::Expected<c10::IValue> run(jit::Module &on, std::vector<c10::IValue> inputs,
                                  uint64_t microBatch, int64_t *busyNs);
  llvm::Expected<std::vector<c10::IValue>> runFresh(std::vector<std::vector<c10::IValue>> inOrder,
                                                    bool dropsNothing = false);
  llvm::Error noteTrainingMode();
  llvm::Error finishDevice();
  /// Everything that a call computes is on the model's stream.
  llvm::Error onStream(llvm::function_ref<llvm::Error()> body);
  // ReferenceBatch.cpp
  void guessBatch(const std::vector<c10::IValue> &inputs);
  llvm::Expected<BatchDiscovery> discover(Signature &of, const std::vector<c10::IValue> &inputs,
                                          int64_t microBatches);
  llvm::Error learn(const std::vector<c10::IValue> &inputs);
  llvm::Error noteState();
  /// Test runs on one micro-batch, of two results that may be a sum and its count: sets their merge
  /// rules and `shown`.
  void tryPair(const std::vector<c10::IValue> &microBatch);
  llvm::Error explained(llvm::Error error, const std::vector<c10::IValue> &inputs);
  bool runsWithGradients(const std::vector<c10::IValue> &inputs);
  llvm::Expected<std::vector<std::vector<c10::IValue>>>
  leavesOf(llvm::ArrayRef<c10::IValue> results);
  // checkpoint/ReferenceCheckpoint.cpp
  TrainingRecord record();
};

} // namespace pipec

// The batches that a training is given, step by step.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"
#include "ir/values/Arguments.h"

#include <map>
#include <string>
#include <vector>

namespace pipec {

/// How samples are cut into batches.
struct SampleCut {
  int64_t size = 1;      // of a batch
  bool shuffle = false;  // another order in each epoch
  uint64_t seed = 0;     // of the order
  bool dropLast = false; // the last batch of an epoch, if it has fewer samples
};

/// Either one batch for every step, or samples that are cut into batches, epoch after epoch. The
/// order of samples depends on the seed and the epoch only.
class TrainingBatches {
public:
  /// Every step has these values, one per input of the signature.
  static TrainingBatches fixed(const Signature &signature, std::vector<c10::IValue> values);
  /// Every step has one batch as micro-batches that were cut before. The caller keeps them.
  static TrainingBatches presplit(const Signature &signature,
                                  const std::vector<std::vector<c10::IValue>> &microBatches);
  /// Batches have how.size samples, the last one of an epoch those that are left, unless it is
  /// dropped. Tensors of `values` that have the size of the first one along their batch dimension
  /// (of a signature without one: 0) are cut; everything else is in each batch. Errors: Usage for
  /// values without samples, and if all batches would be dropped.
  static llvm::Expected<TrainingBatches> cut(const Signature &signature,
                                             std::vector<c10::IValue> values, const SampleCut &how);

  /// Samples of the smallest step; 0: every step is the same.
  int64_t leastSamples() const;
  /// What each step gets whole without the user's asking for it: tensors whose first dimension has
  /// another size than the samples, if the signature does not say how arguments are cut; tensors
  /// with all samples inside of arguments.
  std::vector<std::string> notesOnWhole(const Signature &signature) const;
  /// The arguments that the signature does not cut although they have as many rows as there are
  /// samples, and that the user has not given whole. `isArtifact`: the signature is a plan's, and
  /// not what --batch-dim of this run says.
  std::vector<std::string> warningsOnWhole(const Signature &signature, bool isArtifact) const;
  /// Steps of an epoch.
  int64_t stepsPerEpoch() const;
  /// The batches of a step that updates the weights after every `group` batches, also over the end
  /// of an epoch. `last`: as many batches as there are; 0: any number. Throws LibTorch's
  /// exceptions.
  std::vector<std::vector<c10::IValue>> batches(int64_t step, int64_t group, int64_t last) const;
  /// step: from 0. Throws LibTorch's exceptions.
  std::vector<c10::IValue> batch(int64_t step) const;

  /// How samples are cut, and the place after `steps` steps, for a checkpoint.
  std::map<std::string, std::string> position(int64_t steps) const;
  /// Errors: Usage if a checkpoint has other samples or steps than these, whose place would mean
  /// something else here.
  llvm::Error checkPosition(const std::map<std::string, std::string> &saved) const;
  /// A warning if the one batch of every step has other samples than that of a checkpoint, or is
  /// cut before the run where that was not; empty: none.
  std::string otherBatch(const std::map<std::string, std::string> &saved) const;
  /// Of the order of samples.
  void setSeed(uint64_t seed) {
    seed_ = seed;
    drawnEpoch_ = -1;
  }
  /// A step of the training takes this many batches; only position() wants to know.
  void setGroup(int64_t group) { group_ = group; }

private:
  void drawOrder(int64_t epoch) const;

  std::vector<c10::IValue> values_;
  std::vector<std::optional<int64_t>> dims_; // per value: along which it is cut
  bool assumed_ = false;                     // the dimensions
  std::string first_;                        // argument with samples
  int64_t samples_ = 0;                      // 0: not known
  int64_t size_ = 0;                         // of a batch; 0: fixed
  int64_t group_ = 1;
  bool shuffle_ = false;
  bool drops_ = false; // the last batch of an epoch, which has fewer samples
  uint64_t seed_ = 0;
  std::optional<std::vector<int64_t>> presplit_; // samples of each micro-batch, 0: not known
  mutable int64_t drawnEpoch_ = -1;
  mutable std::vector<int64_t> order_;
};

/// The arguments of a training from a file: a pair of inputs and targets, or inputs alone. Each is
/// a tensor or a tuple of positional arguments. Errors: those of readValue.
llvm::Expected<Arguments> readSamples(const std::string &path);
/// An error about these arguments, with how the file should be.
llvm::Error withFormOfSamples(llvm::Error error, const Signature &signature);

} // namespace pipec

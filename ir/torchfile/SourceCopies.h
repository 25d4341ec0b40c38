// A source model for many test runs that each start from the state in its file.
#pragma once

#include "ir/SourceMode.h"
#include "ir/support/Error.h"
#include "ir/torchfile/JoinLoss.h"

#include <torch/csrc/jit/api/module.h>

#include <mutex>
#include <optional>
#include <string>

namespace pipec {

/// What the model writes for people: print() and warnings.warn().
enum class Prints { Kept, Removed };

/// Reads the source once if its copies can share the code, see canBeCopied(), and anew for each
/// copy otherwise. Any thread.
class SourceCopies {
public:
  SourceCopies(std::string path, SourceMode mode)
      : path_(std::move(path)), mode_(std::move(mode)) {}

  /// Switches dropout off in all copies, see ir/graph/Dropout.h. Call before the first next().
  void turnOffDropout() { dropsNothing_ = true; }

  /// A model with the state of the file that no other call gets or writes. Its code must stay as it
  /// is. `prints` is that of the first model; later ones print nothing. Errors: those of loadSource
  /// and copyOf.
  llvm::Expected<torch::jit::Module> next(Prints prints);

  /// The loss in each of them. Call it after a next().
  std::optional<JoinedLoss> joinedLoss();

private:
  llvm::Expected<SourceModule> read() const;

  std::string path_;
  SourceMode mode_;
  bool dropsNothing_ = false;
  std::mutex mutex_;
  std::optional<bool> isShared_;               // once a model without prints was read
  std::optional<torch::jit::Module> original_; // of the copies; never runs
  std::optional<JoinedLoss> loss_;
};

} // namespace pipec

// The stages of an artifact for many runs, one stage after the other, that each start from the
// state in the files.
#pragma once

#include "ir/artifact/StageModule.h"

#include <map>
#include <string>

namespace pipec {

/// Reads each stage once if its copies can share the code, and anew for each copy otherwise. What
/// the model prints is left out.
class SerialStages {
public:
  /// `directory` holds the stage files; `plan` must outlive it. `instead`: tensors that are known
  /// to have the bytes of weights in the files, by name, which are then not read. Errors: those of
  /// StageModule::load, naming the stage.
  static llvm::Expected<SerialStages> load(const std::string &directory, const Plan &plan,
                                           const std::map<std::string, at::Tensor> &instead = {});

  const Plan &plan() const { return *plan_; }
  /// True if any stage may use it.
  bool mayUseGenerator() const;

  /// Stages that no other call gets, ready to run, with each weight of a weight channel. Any
  /// thread. Errors: those of StageModule::load and copy, naming the stage.
  llvm::Expected<std::vector<StageModule>> copy() const;
  /// The same without a copy. Nothing else may be called afterwards.
  std::vector<StageModule> take() &&;

private:
  llvm::Expected<StageModule> read(size_t stage) const;
  llvm::Expected<StageModule> copyOf(size_t stage) const;

  std::string directory_;
  const Plan *plan_ = nullptr;
  std::map<std::string, at::Tensor> instead_;
  std::vector<StageModule> stages_; // never run
  std::vector<bool> isShared_;      // per stage: its copies share its code
};

} // namespace pipec

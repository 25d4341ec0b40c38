// --planted-fault, in test builds only: which fault goes where.
#pragma once

#include "compiler/CompileHook.h"
#include "passes/Registry.h"

namespace pipec {

/// FAULT breaks the finished stages before they are written; FAULT@PASS what that pass made, the
/// first time that there is something to break.
class FaultyPass : public CompileHook {
public:
  explicit FaultyPass(llvm::StringRef name);

  /// The registry of passes, with the faulty one in it.
  llvm::ArrayRef<PassInfo> passes() const override {
    return pass_.empty() ? allPasses() : llvm::ArrayRef(table_);
  }

  /// Errors: Usage for an unknown fault or pass, or when nothing was there to break.
  llvm::Error beforeFiles(StagedModel &model) override;
  /// For the faults of trainings in the plan. Errors: as beforeFiles.
  llvm::Error beforeTraining(Plan &plan) override;
  llvm::Error afterFlags(Plan &plan) override;
  at::Tensor rootOfStages(const at::Tensor &scale, size_t microBatches) const override;
  /// For a fault of the disk. Errors: IO, Usage.
  llvm::Error afterFiles(const std::string &directory) override;

private:
  llvm::Error check(llvm::Expected<bool> planted) const;

  std::string fault_, pass_;
  std::vector<PassInfo> table_;
  std::shared_ptr<bool> planted_ = std::make_shared<bool>(false);
};

} // namespace pipec

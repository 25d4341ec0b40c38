// --planted-fault, in test builds only: which fault goes where.
#pragma once

#include "passes/Pass.h"

namespace pipec {

/// FAULT breaks the finished stages before they are written; FAULT@PASS what that pass made, the
/// first time that there is something to break.
class FaultyPass {
public:
  FaultyPass() = default; // no fault
  explicit FaultyPass(llvm::StringRef name);

  /// The registry of passes, with the faulty one in it.
  llvm::ArrayRef<PassInfo> passes() const {
    return pass_.empty() ? allPasses() : llvm::ArrayRef(table_);
  }

  /// Before the stages are written. Errors: Usage for an unknown fault or pass, or when nothing was
  /// there to break.
  llvm::Error finish(StagedModel &model) const;
  /// After the stages are written into that directory, for a fault of the disk. Errors: IO, Usage.
  llvm::Error finish(const std::string &directory) const;

private:
  llvm::Error check(llvm::Expected<bool> planted) const;

  std::string fault_, pass_;
  std::vector<PassInfo> table_;
  std::shared_ptr<bool> planted_ = std::make_shared<bool>(false);
};

} // namespace pipec

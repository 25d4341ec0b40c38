// The points at which a test build changes a compile. The product has no hook.
#pragma once

#include "passes/Pass.h"
#include "passes/Registry.h"

#include <ATen/core/Tensor.h>

namespace pipec {

/// The hook of one compile. This class changes nothing.
class CompileHook {
public:
  virtual ~CompileHook() = default;

  /// The registry of the compile's passes: a row of a hook may insert a step after its pass.
  virtual llvm::ArrayRef<PassInfo> passes() const { return allPasses(); }

  /// After the last pass, before the stages are written. An error ends the compile.
  virtual llvm::Error beforeFiles(StagedModel &) { return llvm::Error::success(); }

  /// Once the plan says what is trained, before gradients are compared. An error ends
  /// the compile.
  virtual llvm::Error beforeTraining(Plan &) { return llvm::Error::success(); }
  /// Between the comparisons of whole and of split backwards; the first has shown which channels
  /// bring gradients back. An error ends the compile.
  virtual llvm::Error afterFlags(Plan &) { return llvm::Error::success(); }
  /// Where the backward of the stages starts in one of so many micro-batches, if that of the source
  /// starts at `scale`. Several threads ask.
  virtual at::Tensor rootOfStages(const at::Tensor &scale, size_t /*microBatches*/) const {
    return scale;
  }
  /// If the parameters have more bytes than this, only the example's gradients are kept for the
  /// comparison with split backwards, not those of all runs.
  virtual int64_t keptGradients() const { return int64_t(256) << 20; }

  /// Weights of at least this many bytes are written past the kernel's cache, and only their ends
  /// are read back.
  virtual int64_t pastCacheFrom() const { return int64_t(1) << 30; }

  /// After the stages are written into `directory`. An error ends the compile.
  virtual llvm::Error afterFiles(const std::string & /*directory*/) {
    return llvm::Error::success();
  }
};

/// Makes the hook of one compile.
using MakeCompileHook = std::unique_ptr<CompileHook> (*)();

/// A test build sets it before main(). The product leaves it empty.
inline constinit MakeCompileHook testHook = nullptr;

} // namespace pipec

// A compile that is not saved yet.
#pragma once

#include "compiler/CompileReport.h"
#include "ir/support/Failure.h"

#include <memory>
#include <string>

namespace pipec {

class ArtifactWriter;

/// A finished compile that is not saved yet. It owns its files, weights included, in a temporary
/// directory below $TMPDIR (or /tmp), and removes them when it is destroyed. It needs neither the
/// Compiler nor the model's file any more. One thread at a time; any thread.
class Compiled {
public:
  Compiled(Compiled &&);
  Compiled &operator=(Compiled &&) = delete;
  ~Compiled();

  const CompileReport &report() const { return report_; }

  /// Copies the artifact to `dir`, which appears complete or not at all. `force` replaces an
  /// existing artifact. It may be called again for another place. Errors: Usage (exists without
  /// force, or is no artifact), IO (cannot be written, disk full).
  llvm::Error save(const std::string &dir, bool force = false) const;

private:
  friend class Compiler;
  Compiled(CompileReport report, std::unique_ptr<ArtifactWriter> files);
  CompileReport report_;
  std::unique_ptr<ArtifactWriter> files_;
};

} // namespace pipec

// Writes an artifact: the directory appears complete or not at all. No LibTorch.
#pragma once

#include "ir/support/UnfinishedOutputs.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <future>
#include <map>
#include <string>

namespace pipec {

/// A directory that becomes `target` in one step, or never exists. The steps beside the target:
/// .NAME.tmp-<pid> -> files -> MANIFEST last -> fsync -> rename (exchange if `target` exists and
/// `force` is set).
class ArtifactWriter {
public:
  /// Errors: Usage if the target exists and `force` is not set, or if it exists and pipec would not
  /// have written it (`force` never deletes such a directory); IO naming path and reason if its
  /// parent cannot be written.
  static llvm::Expected<ArtifactWriter> create(const std::string &target, bool force);
  ArtifactWriter(ArtifactWriter &&) = default;
  ArtifactWriter &operator=(ArtifactWriter &&) = delete;
  /// Removes the temporary directory unless published.
  ~ArtifactWriter();

  /// The directory for the files before publication.
  const std::string &directory() const { return temporary_.path(); }
  /// Writes one file (name without directory) and syncs it. Errors: IO; if the disk is full, with
  /// needed and free bytes.
  llvm::Error write(llvm::StringRef name, llvm::StringRef bytes);
  /// Registers a complete file with its digest `sha256` (hex). write() need not have made it.
  /// Another thread syncs it while the caller continues. The file must not change any more.
  /// writeManifest() returns the errors.
  void settle(const std::string &name, std::string sha256);
  /// Writes MANIFEST over every file there, in sha256sum's format sorted by name, and syncs
  /// everything.
  llvm::Error writeManifest();
  /// Renames the directory to the target. Afterwards the destructor does nothing. Errors: those of
  /// create() (another process may have made the target meanwhile), IO. `isLast`: the process was
  /// started for this artifact, so that from then on a signal comes too late to stop it.
  llvm::Error publish(bool isLast = false);

private:
  ArtifactWriter() = default;
  std::string target_;
  UnfinishedDirectory temporary_;
  std::map<std::string, std::future<llvm::Expected<std::string>>> settling_; // digests, by file
  bool force_ = false;
};

} // namespace pipec

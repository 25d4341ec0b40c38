// The artifact directory: written atomically, verified before anything in it is believed. No
// LibTorch.
#pragma once

#include "ir/plan/Finding.h"
#include "ir/plan/Plan.h"
#include "ir/support/UnfinishedOutputs.h"

#include <future>
#include <map>
#include <string>
#include <vector>

namespace pipec {

/// A directory that becomes `target` in one step, or never existed.
/// beside the target: .NAME.tmp-<pid> -> files -> MANIFEST last -> fsync -> rename (exchange when
/// `target` exists and force).
class ArtifactWriter {
public:
  /// Errors: Usage when the target exists without force, or when it exists and is something that
  /// pipec would not have written (force never deletes that); IO when its parent cannot be written,
  /// naming path and reason.
  static llvm::Expected<ArtifactWriter> create(const std::string &target, bool force);
  ArtifactWriter(ArtifactWriter &&) = default;
  ArtifactWriter &operator=(ArtifactWriter &&) = delete;
  /// Removes the temporary directory unless published.
  ~ArtifactWriter();

  /// Where files are written before publication.
  const std::string &directory() const { return temporary_.path(); }
  /// Writes one file (name without directory) and syncs it. Errors: IO with needed and free bytes
  /// when the disk is full.
  llvm::Error write(llvm::StringRef name, llvm::StringRef bytes);
  /// The file is complete, whoever wrote it, and `sha256` (in hex) is its digest: it is synced on
  /// another thread while the caller goes on. It must not change any more. What goes wrong is an
  /// error of writeManifest().
  void settle(const std::string &name, std::string sha256);
  /// MANIFEST over every file there, in sha256sum's format sorted by name; everything synced.
  llvm::Error writeManifest();
  /// The rename. After it the destructor does nothing. Errors: as create() (another process may
  /// have made the target meanwhile), IO.
  llvm::Error publish();

private:
  ArtifactWriter() = default;
  std::string target_;
  UnfinishedDirectory temporary_;
  std::map<std::string, std::future<llvm::Expected<std::string>>> settling_; // digests, by file
  bool force_ = false;
};

/// Integrity only: nothing is deserialised. Order: directory, MANIFEST syntax and size, names (no
/// path, no link), sizes, digests, extra files. Codes: no-artifact (no directory, no MANIFEST),
/// io-error, bad-manifest, missing-file, not-a-file (link, directory, second hard link), too-large,
/// changed-file, extra-file.
std::vector<Finding> checkIntegrity(const std::string &directory);

/// An artifact whose bytes agree with its MANIFEST and whose plan is valid.
struct Artifact {
  std::string directory;
  std::string id; // sha256 of MANIFEST
  Plan plan;
  std::string scheduleCsv;
  std::vector<std::string> warnings;
  std::string stagePath(size_t stage) const;
};
/// Errors: IO, BadArtifact (first finding), Version.
llvm::Expected<Artifact> openArtifact(const std::string &directory);

/// The same for those who only read plan and schedule: the digests of these two are compared, stage
/// files are not opened.
llvm::Expected<Artifact> openArtifactPlan(const std::string &directory);

/// Streams the file. Errors: IO.
llvm::Expected<std::string> sha256File(const std::string &path);

} // namespace pipec

// The artifact directory. It is written atomically, and verified before its content is used. No
// LibTorch.
#pragma once

#include "ir/plan/Finding.h"
#include "ir/plan/Plan.h"
#include "ir/support/UnfinishedOutputs.h"

#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
  /// create() (another process may have made the target meanwhile), IO.
  llvm::Error publish();

private:
  ArtifactWriter() = default;
  std::string target_;
  UnfinishedDirectory temporary_;
  std::map<std::string, std::future<llvm::Expected<std::string>>> settling_; // digests, by file
  bool force_ = false;
};

/// Checks integrity only; nothing is deserialised. Order: directory, MANIFEST syntax and size,
/// names (no path, no link), sizes, digests, extra files. Codes: no-artifact (no directory, no
/// MANIFEST), io-error, bad-manifest, missing-file, not-a-file (link, directory, second hard link),
/// too-large, changed-file, extra-file.
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

/// Names of the files of the stages that evaluate begin with it: eval-plan.json, eval-0.pt, ...
constexpr const char *kEvaluationPrefix = "eval-";

/// The stages in eval mode beside those of a training (pipe-compile --evaluation), as an artifact
/// of inference; nothing: it has none. Their schedule is made for their ranks. `training` must be
/// what openArtifact or openArtifactPlan returned. Errors: IO, BadArtifact, Version.
llvm::Expected<std::optional<Artifact>> evaluationOf(const Artifact &training);

/// The same for callers that read only plan and schedule: their two digests are compared, stage
/// files are not opened.
llvm::Expected<Artifact> openArtifactPlan(const std::string &directory);

} // namespace pipec

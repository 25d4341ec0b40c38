// The checkpoints of one training on disk: DIR/step-10, DIR/step-20, ... No LibTorch.
#pragma once

#include "ir/artifact/ArtifactWriter.h"
#include "ir/artifact/SafeFile.h"
#include "ir/checkpoint/CheckpointText.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// A checkpoint whose bytes agree with its MANIFEST and whose checkpoint.json is valid. Its stage
/// files are not read yet.
struct OpenedCheckpoint {
  std::string directory;
  CheckpointText text;
  std::vector<std::string> warnings;
  std::vector<std::string> passedOver; // newer ones that are damaged
};

/// One checkpoint. Errors: BadArtifact for anything that is missing, changed or not what
/// checkpoint.json says; Version; IO.
llvm::Expected<OpenedCheckpoint> openCheckpoint(const std::string &path);

/// The steps of the checkpoints in a directory, ascending; none if it does not exist. They may be
/// damaged. Errors: IO.
llvm::Expected<std::vector<int64_t>> checkpointSteps(const std::string &directory);
/// The step of a name that pipec gives, as "step-10"; nothing for all others.
std::optional<int64_t> stepOf(llvm::StringRef name);
/// DIR/step-10.
std::string checkpointPath(const std::string &directory, int64_t step);

enum class WhichCheckpoint {
  Newest,     // a damaged one is an error
  NewestGood, // damaged ones are passed over, which `warnings` says
};
/// The checkpoint to resume from. `path`: one checkpoint, or a directory of checkpoints. A
/// checkpoint also counts as damaged if `read` returns BadArtifact for it; the last call of `read`
/// is for the returned one. Errors: those of openCheckpoint and `read`; BadArtifact if all are
/// damaged; IO if there is none.
llvm::Expected<OpenedCheckpoint>
someCheckpoint(const std::string &path, WhichCheckpoint which,
               llvm::function_ref<llvm::Error(const OpenedCheckpoint &)> read);
/// Renames a damaged checkpoint to step-N.damaged, or step-N.damaged-2, ... Errors: IO.
llvm::Error moveAside(const std::string &target);

/// A checkpoint that is being written. Until finish() it is DIR/.step-N.tmp-PID, which is removed
/// with this object or when a signal ends the process. Each file in it may have another writer;
/// one closes them all.
class CheckpointWriter {
public:
  /// Makes DIR where it is missing, and removes what killed processes left in it. A damaged
  /// checkpoint of this step is renamed to step-N.damaged. Errors: Usage if there is a good one of
  /// this step, or if DIR is an artifact; Other if another process writes a checkpoint there; IO.
  static llvm::Expected<CheckpointWriter> create(const std::string &directory, int64_t step);

  /// The directory that the files are written into.
  const std::string &directory() const { return writer_.directory(); }
  /// Writes checkpoint.json and MANIFEST, syncs everything and renames it to DIR/step-N. After that
  /// only the `keep` newest up to this one stay; 0: all. Errors: IO.
  llvm::Error finish(const CheckpointText &text, int64_t keep);
  /// Before anything is written: only the `keep` newest before this step stay. The one of the step
  /// before must be good. Errors: IO.
  llvm::Error removeOlder(int64_t keep) const;

private:
  CheckpointWriter(std::string parent, int64_t step, FileHandle lock, ArtifactWriter writer)
      : parent_(std::move(parent)), step_(step), lock_(std::move(lock)),
        writer_(std::move(writer)) {}
  std::string parent_;
  int64_t step_;
  FileHandle lock_; // of the directory: released after the writer
  ArtifactWriter writer_;
};

} // namespace pipec

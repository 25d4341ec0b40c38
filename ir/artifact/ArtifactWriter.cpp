// The steps of a writer:
//
//   create          makes the directory .X.tmp-P beside the target X (P: the process)
//   write, settle   files in it, each synced
//   writeManifest   MANIFEST in it, synced
//   publish         without an old X: renames .X.tmp-P to X
//                   with one: exchanges the two, then deletes the old one
//
// Whenever the process dies, X is the old artifact, the new one, or nothing.
#include "ir/artifact/ArtifactWriter.h"

#include "ir/TorchError.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/Manifest.h"
#include "ir/artifact/SafeFile.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/OutputPlace.h"
#include "ir/support/Try.h"
#include "ir/support/UnfinishedOutputs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec {
namespace {

enum class TargetState { Absent, Present };

llvm::Expected<TargetState> stateOf(const std::string &target) {
  struct stat status;
  if (::lstat(target.c_str(), &status) == 0)
    return TargetState::Present;
  if (errno == ENOENT)
    return TargetState::Absent;
  return failf(ExitCode::IO, "{}: cannot read its status: {}", target, systemMessage(errno));
}

/// The files that pipec writes into an artifact, by name alone: --force must also be able to
/// replace an artifact with a damaged MANIFEST.
bool isOurs(llvm::StringRef name) {
  if (name == kManifestName || name == "plan.json" || name == "schedule.csv" ||
      name == "costs.json" || name == std::string(kEvaluationPrefix) + "plan.json")
    return true;
  if (!(name.consume_front("stage-") || name.consume_front(kEvaluationPrefix)) ||
      !(name.consume_back(".pt") || name.consume_back(".ir")))
    return false;
  return !name.empty() && llvm::all_of(name, llvm::isDigit);
}

/// An existing target may be replaced only if it is an artifact and holds no files of others.
llvm::Error checkReplaceable(const std::string &target) {
  auto refuse = [&](const std::string &why) {
    return makeError(ExitCode::Usage,
                     fmt::format("{}: exists and is not a pipec artifact: {}", target, why),
                     "choose another output, or move it away");
  };
  struct stat status;
  bool known = ::lstat(target.c_str(), &status) == 0;
  if (known && S_ISLNK(status.st_mode))
    return refuse("expected a directory, got a symbolic link");
  if (!known || !S_ISDIR(status.st_mode))
    return refuse("expected a directory, got a file");
  FileHandle directory = TRY(openDirectory(target));
  std::vector<std::string> names = TRY(listDirectory(directory, target));
  for (const char *needed : {kManifestName, "plan.json"})
    if (!llvm::is_contained(names, needed))
      return refuse(fmt::format("it has no {}", needed));
  Manifest listed;
  if (llvm::Expected<FileHandle> file = openForReading(directory, kManifestName)) {
    llvm::Expected<std::string> text = readAll(*file, kManifestName, kMaxManifestBytes);
    llvm::Expected<Manifest> manifest = text ? manifestFromText(*text) : text.takeError();
    if (manifest)
      listed = std::move(*manifest);
    else
      llvm::consumeError(manifest.takeError());
  } else {
    llvm::consumeError(file.takeError());
  }
  for (const std::string &name : names) {
    bool flat = ::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                !S_ISDIR(status.st_mode);
    if (!flat || (!isOurs(name) && !listed.count(name)))
      return refuse(fmt::format("it holds {}", name));
  }
  return llvm::Error::success();
}

std::string parentOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

llvm::Error checkTarget(const std::string &target, bool force) {
  TargetState state = TRY(stateOf(target));
  if (state == TargetState::Absent)
    return llvm::Error::success();
  TRY(checkReplaceable(target)); // fails even with --force
  return force ? llvm::Error::success() : existsAlready(target);
}

llvm::Error renameError(const std::string &target, int error) {
  return failf(ExitCode::IO, "{}: cannot move the artifact there: {}", target,
               systemMessage(error));
}

/// File systems without the flag return EINVAL or ENOSYS.
bool lacksFlag(int error) { return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP; }

/// Publishes the new artifact if there is no old one.
llvm::Error renameNew(const std::string &temporary, const std::string &target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0)
    return llvm::Error::success();
  if (errno == EEXIST)
    return existsAlready(target);
  if (!lacksFlag(errno))
    return renameError(target, errno);
  TargetState state = TRY(stateOf(target));
  if (state == TargetState::Present)
    return existsAlready(target);
  return ::rename(temporary.c_str(), target.c_str()) == 0 ? llvm::Error::success()
                                                          : renameError(target, errno);
}

/// Afterwards `temporary` is the old artifact.
llvm::Error swapInPlace(const std::string &temporary, const std::string &target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return llvm::Error::success();
  if (!lacksFlag(errno))
    return renameError(target, errno);
  // Without exchange there is a moment without an artifact; the old one is put back if the second
  // step fails.
  std::string aside = temporary + ".old";
  if (::rename(target.c_str(), aside.c_str()) != 0)
    return renameError(target, errno);
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    int error = errno;
    ::rename(aside.c_str(), target.c_str());
    return renameError(target, error);
  }
  if (::rename(aside.c_str(), temporary.c_str()) != 0)
    removeTree(aside);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<ArtifactWriter> ArtifactWriter::create(const std::string &target, bool force) {
  ArtifactWriter writer;
  writer.target_ = llvm::StringRef(target).rtrim('/').str();
  writer.force_ = force;
  std::string name = std::filesystem::path(writer.target_).filename().string();
  if (name.empty() || name == "." || name == "..")
    return failf(ExitCode::Usage, "output \"{}\": expected the name of a directory to make",
                 target);
  TRY(checkTarget(writer.target_, force));
  TRY(refuseInside(writer.target_));

  const std::string parent = parentOf(writer.target_);
  std::error_code code =
      writer.temporary_.make(fmt::format("{}/.{}.tmp-{}", parent, name, ::getpid()));
  if (code == std::errc::operation_canceled)
    return failf(ExitCode::Other, "{}: not written: the process is ending", target);
  if (code)
    return makeError(ExitCode::IO,
                     fmt::format("{}: cannot write into {}: {}", writer.target_, parent,
                                 systemMessage(code.value())),
                     code == std::errc::no_such_file_or_directory ? "create the directory first"
                                                                  : "");
  return writer;
}

ArtifactWriter::~ArtifactWriter() {
  for (auto &[name, digest] : settling_)
    if (digest.valid())
      llvm::consumeError(digest.get().takeError()); // an earlier error counts
}

llvm::Error ArtifactWriter::write(llvm::StringRef name, llvm::StringRef bytes) {
  if (!isArtifactFileName(name))
    return failf(ExitCode::Internal, "\"{}\" cannot be the name of an artifact's file", name.str());
  FileHandle directory = TRY(openDirectory(temporary_.path()));
  return withContext(writeNewFile(directory, name.str(), bytes), target_);
}

namespace {

/// The digest of a file that we wrote, once it is safe on disk. `known`: its digest, or empty.
llvm::Expected<std::string> syncedDigest(const FileHandle &directory, const std::string &name,
                                         std::string known = "") {
  FileHandle file = TRY(openForReading(directory, name));
  // The disk works while the digest is computed; a refusal costs time only.
  ::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  std::string digest = TRY(known.empty() ? sha256Of(file, name) : std::move(known));
  TRY(sync(file, name));
  return digest;
}

} // namespace

void ArtifactWriter::settle(const std::string &name, std::string sha256) {
  settling_[name] = std::async(
      std::launch::async,
      [directory = directory(), name, known = std::move(sha256)]() -> llvm::Expected<std::string> {
        std::string digest;
        auto compute = [&]() -> llvm::Error {
          FileHandle opened = TRY(openDirectory(directory));
          digest = TRY(syncedDigest(opened, name, known));
          return llvm::Error::success();
        };
        TRY(guardTorchError(ExitCode::Internal, name + ": computing its digest", compute));
        return digest;
      });
}

llvm::Error ArtifactWriter::writeManifest() {
  FileHandle directory = TRY(openDirectory(temporary_.path()));
  std::vector<std::string> names = TRY(listDirectory(directory, temporary_.path()));
  Manifest manifest;
  for (const std::string &name : names) {
    auto settling = settling_.find(name);
    llvm::Expected<std::string> digest =
        settling != settling_.end() ? settling->second.get() : syncedDigest(directory, name);
    if (!digest)
      return withContext(digest.takeError(), target_);
    manifest[name] = *digest;
  }
  settling_.clear();
  if (llvm::Error error = writeNewFile(directory, kManifestName, toString(manifest)))
    return withContext(std::move(error), target_);
  return withContext(sync(directory, temporary_.path()), target_);
}

llvm::Error ArtifactWriter::publish(bool isLast) {
  std::lock_guard lock(unfinishedOutputs().mutex);
  if (!temporary_.isOpen())
    return failf(ExitCode::Other, "{}: not published: the process is ending", target_);
  TRY(checkTarget(target_, force_));
  TargetState state = TRY(stateOf(target_));
  const bool replaces = state == TargetState::Present;
  const std::string temporary = directory();
  TRY((replaces ? swapInPlace : renameNew)(temporary, target_));
  temporary_.release();
  unfinishedOutputs().isDone |= isLast;
  if (replaces)
    removeTree(temporary);
  FileHandle parent = TRY(openDirectory(parentOf(target_)));
  return sync(parent, parentOf(target_));
}

} // namespace pipec

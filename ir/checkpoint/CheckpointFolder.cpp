#include "ir/checkpoint/CheckpointFolder.h"

#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/Manifest.h"
#include "ir/checkpoint/NearCheckpoints.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/OutputPlace.h"
#include "ir/support/Try.h"
#include "ir/support/Version.h"
#include "ir/support/VersionText.h"
#include "llvm/ADT/StringExtras.h"

#include <cerrno>
#include <filesystem>
#include <set>
#include <sys/file.h>

namespace pipec {

namespace fs = std::filesystem;

static constexpr llvm::StringLiteral kPrefix = "step-";

std::optional<int64_t> stepOf(llvm::StringRef name) {
  int64_t step = 0;
  if (!name.consume_front(kPrefix) || name.getAsInteger(10, step) || step < 0 ||
      std::to_string(step) != name.str())
    return std::nullopt;
  return step;
}

namespace {

constexpr uint64_t kMaxTextBytes = uint64_t(64) << 20;

bool isOneCheckpoint(const std::string &path) {
  std::error_code ignored;
  return fs::exists(path + "/" + kCheckpointTextName, ignored) ||
         fs::exists(path + "/" + kManifestName, ignored) ||
         stepOf(fs::path(llvm::StringRef(path).rtrim('/').str()).filename().string());
}

/// Of a damaged checkpoint. A command may have better help.
std::string namesOthers(const std::string &path) {
  const std::vector<std::string> others = nearCheckpoints(path);
  return others.empty() ? "" : "other checkpoints there: " + llvm::join(others, ", ");
}

llvm::Expected<CheckpointText> readText(const FileHandle &directory,
                                        std::vector<std::string> &warnings) {
  FileHandle file = TRY(openForReading(directory, kCheckpointTextName));
  std::string text = TRY(readAll(file, kCheckpointTextName, kMaxTextBytes));
  return checkpointFromJson(text, warnings);
}

/// MANIFEST must list the files that checkpoint.json names, and no others.
llvm::Error checkFiles(const FileHandle &directory, const std::string &path,
                       const CheckpointText &text) {
  std::vector<std::string> names = TRY(listDirectory(directory, path));
  std::set<std::string> expected = {kManifestName, kCheckpointTextName};
  for (const CheckpointFile &file : text.files)
    expected.insert(file.name);
  for (const std::string &name : names)
    if (!expected.erase(name))
      return failf(ExitCode::BadArtifact, "{}: {} does not name it", name, kCheckpointTextName);
  if (!expected.empty())
    return failf(ExitCode::BadArtifact, "{}: missing: {} names it", *expected.begin(),
                 kCheckpointTextName);
  return llvm::Error::success();
}

llvm::Error openInto(OpenedCheckpoint &checkpoint) {
  const std::string &path = checkpoint.directory;
  std::vector<Finding> findings = checkIntegrity(path);
  if (!findings.empty()) {
    const Finding &first = findings.front();
    return makeError(
        first.exitCode,
        first.code == "no-artifact" && first.where == kManifestName
            ? fmt::format("{}: missing: not a checkpoint, or an unfinished one", kManifestName)
            : first.message);
  }
  FileHandle directory = TRY(openDirectory(path));
  std::error_code ignored;
  if (fs::exists(path + "/plan.json", ignored))
    return makeError(ExitCode::BadArtifact, "expected a checkpoint, got an artifact",
                     whatACheckpointIs(path));
  checkpoint.text = TRY(readText(directory, checkpoint.warnings));
  const std::optional<int64_t> named =
      stepOf(fs::path(llvm::StringRef(path).rtrim('/').str()).filename().string());
  if (named && *named != checkpoint.text.step)
    return failf(ExitCode::BadArtifact, "{}: step: expected {}, that of its folder, got {}",
                 kCheckpointTextName, *named, checkpoint.text.step);
  if (!isSameRelease(checkpoint.text.torchVersion, torchVersion()))
    checkpoint.warnings.push_back(fmt::format("{}: written with LibTorch {}, this is LibTorch {}: "
                                              "numbers may differ in their last bits",
                                              path, checkpoint.text.torchVersion, torchVersion()));
  return checkFiles(directory, path, checkpoint.text);
}

} // namespace

std::string checkpointPath(const std::string &directory, int64_t step) {
  return fmt::format("{}/{}{}", llvm::StringRef(directory).rtrim('/').str(), kPrefix.str(), step);
}

llvm::Expected<OpenedCheckpoint> openCheckpoint(const std::string &path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return cannotRead(path, std::make_error_code(std::errc::no_such_file_or_directory),
                      whatACheckpointIs(path));
  OpenedCheckpoint checkpoint;
  checkpoint.directory = path;
  llvm::Error error = openInto(checkpoint);
  if (!error)
    return checkpoint;
  ErrorText text = describe(std::move(error));
  if (text.help.empty() && text.code == ExitCode::BadArtifact)
    text.help = namesOthers(path);
  return makeError(text.code, path + ": " + text.message, text.help);
}

llvm::Expected<std::vector<int64_t>> checkpointSteps(const std::string &directory) {
  std::vector<int64_t> steps;
  std::error_code code;
  if (!fs::exists(directory, code))
    return steps;
  FileHandle opened = TRY(openDirectory(directory));
  std::vector<std::string> names = TRY(listDirectory(opened, directory));
  for (const std::string &name : names)
    if (std::optional<int64_t> step = stepOf(name))
      steps.push_back(*step);
  llvm::sort(steps);
  return steps;
}

/// Nothing if the directory has none or does not exist.
static llvm::Expected<std::optional<OpenedCheckpoint>>
findCheckpoint(const std::string &path, WhichCheckpoint which,
               llvm::function_ref<llvm::Error(const OpenedCheckpoint &)> read) {
  auto open = [&](const std::string &at) -> llvm::Expected<OpenedCheckpoint> {
    OpenedCheckpoint one = TRY(openCheckpoint(at));
    TRY(read(one));
    return one;
  };
  if (isOneCheckpoint(path)) {
    OpenedCheckpoint one = TRY(open(path));
    return std::optional(std::move(one));
  }
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_directory(path, ignored))
    return makeError(ExitCode::IO, path + ": expected a checkpoint, got a file",
                     whatACheckpointIs(path));
  std::vector<int64_t> steps = TRY(checkpointSteps(path));
  std::vector<std::string> warnings, passedOver;
  for (int64_t step : llvm::reverse(steps)) {
    const std::string at = checkpointPath(path, step);
    llvm::Expected<OpenedCheckpoint> one = open(at);
    if (one) {
      one->passedOver = std::move(passedOver);
      one->warnings.insert(one->warnings.begin(), warnings.begin(), warnings.end());
      return std::optional(std::move(*one));
    }
    if (which == WhichCheckpoint::Newest)
      return one.takeError();
    ErrorText text = describe(one.takeError());
    if (text.code != ExitCode::BadArtifact) // a disk that cannot be read now, a newer pipec
      return makeError(text.code, text.message, text.help);
    warnings.push_back("this checkpoint is damaged and not used: " + text.message);
    passedOver.push_back(at);
  }
  if (!steps.empty())
    return makeError(ExitCode::BadArtifact,
                     fmt::format("{}: expected a checkpoint that is not damaged, got {} damaged; "
                                 "the newest: {}",
                                 path, steps.size(), warnings.front()));
  return std::optional<OpenedCheckpoint>();
}

llvm::Expected<OpenedCheckpoint>
someCheckpoint(const std::string &path, WhichCheckpoint which,
               llvm::function_ref<llvm::Error(const OpenedCheckpoint &)> read) {
  std::optional<OpenedCheckpoint> found = TRY(findCheckpoint(path, which, read));
  if (!found)
    return makeError(ExitCode::IO, path + ": expected a checkpoint, got none",
                     whatACheckpointIs(path));
  return std::move(*found);
}

llvm::Error moveAside(const std::string &target) {
  std::string aside = target + ".damaged";
  std::error_code code;
  for (int number = 2; fs::exists(fs::symlink_status(aside, code)); ++number)
    aside = fmt::format("{}.damaged-{}", target, number);
  fs::rename(target, aside, code);
  return code ? failf(ExitCode::IO, "{}: cannot rename it to {}: {}", target, aside,
                      systemMessage(code.value()))
              : llvm::Error::success();
}

namespace {

llvm::Error cannotMake(const std::string &path, const std::error_code &code) {
  return failf(ExitCode::IO, "{}: cannot make the directory: {}", path,
               systemMessage(code.value()));
}

/// Syncs the parent of each new directory, too: otherwise a power failure could remove it.
llvm::Error makeDirectory(const std::string &path) {
  std::error_code code;
  std::vector<std::string> parents; // of directories that are missing
  for (fs::path at = fs::absolute(path, code); !fs::exists(at, code) && at.has_relative_path();
       at = at.parent_path())
    parents.push_back(at.parent_path().string());
  fs::create_directories(path, code);
  if (code)
    return cannotMake(path, code);
  for (const std::string &parent : parents) {
    FileHandle opened = TRY(openDirectory(parent));
    TRY(sync(opened, parent));
  }
  return llvm::Error::success();
}

/// Some network file systems cannot lock a directory: then nothing is locked.
llvm::Expected<FileHandle> lockDirectory(const std::string &path) {
  llvm::Expected<FileHandle> directory = openDirectory(path);
  if (!directory || ::flock(directory->get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return directory;
  return makeError(ExitCode::Other, path + ": another process writes a checkpoint there",
                   "give each training its own --checkpoint directory");
}

/// Directories that only a process which is gone can have left: who writes has the lock.
llvm::Error removeLeftOvers(const FileHandle &directory, const std::string &path) {
  std::vector<std::string> names = TRY(listDirectory(directory, path));
  for (llvm::StringRef name : names) {
    auto [target, process] = name.split(".tmp-");
    if (target.consume_front(".") && stepOf(target) && !process.empty() &&
        process.find_first_not_of("0123456789-") == llvm::StringRef::npos)
      removeTree(path + "/" + name.str());
  }
  return llvm::Error::success();
}

/// Removes all but the newest checkpoints up to this step, whose own is good. Later ones are
/// damaged: they stay, and do not count. Each gets another name first, so a process that is killed
/// meanwhile leaves no damaged checkpoint.
llvm::Error keepNewest(const std::string &directory, size_t keep, int64_t step) {
  std::vector<int64_t> steps = TRY(checkpointSteps(directory));
  llvm::erase_if(steps, [&](int64_t each) { return each > step; });
  for (int64_t old : llvm::drop_begin(llvm::reverse(steps), std::min<size_t>(keep, steps.size()))) {
    const std::string path = checkpointPath(directory, old);
    const std::string away = fmt::format("{}/.{}{}.tmp-0", directory, kPrefix.str(), old);
    std::error_code code;
    fs::rename(path, away, code);
    if (code)
      return failf(ExitCode::IO, "{}: cannot remove it: {}", path, systemMessage(code.value()));
    removeTree(away);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<CheckpointWriter> CheckpointWriter::create(const std::string &directory,
                                                          int64_t step) {
  const std::string parent = llvm::StringRef(directory).rtrim('/').str();
  std::error_code ignored;
  if (isOneCheckpoint(directory))
    return makeError(
        ExitCode::Usage,
        fmt::format("{}: expected a directory of checkpoints, got {}", directory,
                    fs::exists(parent + "/plan.json", ignored) ? "an artifact" : "one checkpoint"),
        "pass the directory above it, or another one");
  TRY(refuseInside(checkpointPath(parent, step)));
  TRY(makeDirectory(parent));
  FileHandle lock = TRY(lockDirectory(parent));
  TRY(removeLeftOvers(lock, parent));
  const std::string target = checkpointPath(parent, step);
  if (fs::exists(fs::symlink_status(target, ignored))) {
    llvm::Expected<OpenedCheckpoint> old = openCheckpoint(target);
    if (old)
      return makeError(
          ExitCode::Usage, target + ": expected no checkpoint of this step, got one",
          "pass another --checkpoint directory, or --resume to continue this training");
    llvm::consumeError(old.takeError());
    TRY(moveAside(target));
  }
  ArtifactWriter writer = TRY(ArtifactWriter::create(target, /*force=*/false));
  return CheckpointWriter(parent, step, std::move(lock), std::move(writer));
}

llvm::Error CheckpointWriter::finish(const CheckpointText &text, int64_t keep) {
  TRY(writer_.write(kCheckpointTextName, toJson(text)));
  TRY(writer_.writeManifest());
  TRY(writer_.publish());
  return keep > 0 ? keepNewest(parent_, static_cast<size_t>(keep), step_) : llvm::Error::success();
}

llvm::Error CheckpointWriter::removeOlder(int64_t keep) const {
  return keepNewest(parent_, static_cast<size_t>(keep), step_ - 1);
}

} // namespace pipec

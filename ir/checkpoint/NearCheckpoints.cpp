#include "ir/checkpoint/NearCheckpoints.h"

#include "ir/checkpoint/CheckpointFolder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace pipec {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostShown = 3;
constexpr size_t kMostLooked = 1000; // entries of a directory

std::string withoutSlash(const std::string &path) {
  const std::string name = llvm::StringRef(path).rtrim('/').str();
  return name.empty() ? path : name;
}

/// Those directly in a directory, by name; its entries have the given prefix.
std::set<std::string> checkpointsIn(const std::string &directory, const std::string &prefix) {
  std::set<std::string> found;
  size_t looked = 0;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    if (++looked > kMostLooked)
      break;
    const std::string name = entry->path().filename().string();
    const std::string path = prefix + name;
    if (name.front() != '.' && (looksLikeCheckpoint(path) || holdsCheckpoints(path)))
      found.insert(path);
  }
  return found;
}

} // namespace

bool looksLikeCheckpoint(const std::string &path) {
  std::error_code ignored;
  return fs::is_regular_file(path + "/" + kCheckpointTextName, ignored);
}

bool holdsCheckpoints(const std::string &path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return false;
  llvm::Expected<std::vector<int64_t>> steps = checkpointSteps(path);
  if (!steps) {
    llvm::consumeError(steps.takeError());
    return false;
  }
  return llvm::any_of(
      *steps, [&](int64_t step) { return looksLikeCheckpoint(checkpointPath(path, step)); });
}

std::vector<std::string> nearCheckpoints(const std::string &path) {
  const std::string name = withoutSlash(path);
  const std::string parent = fs::path(name).parent_path().string();
  std::vector<std::string> found;
  auto add = [&](const std::string &each) {
    if (each != name && found.size() < kMostShown && !llvm::is_contained(found, each))
      found.push_back(each);
  };
  if (looksLikeCheckpoint(parent)) // a file of it
    add(parent);
  for (const std::string &each : checkpointsIn(name, name + "/"))
    add(each);
  const std::string prefix = parent.empty() || parent.back() == '/' ? parent : parent + "/";
  for (const std::string &each : checkpointsIn(parent.empty() ? "." : parent, prefix))
    add(each);
  return found;
}

std::string whatACheckpointIs(const std::string &path) {
  std::string text = "pass a directory that pipe-run --checkpoint wrote, or a checkpoint in it, a "
                     "directory step-N with a checkpoint.json";
  const std::vector<std::string> found = nearCheckpoints(path);
  return found.empty() ? text : text + "; near there: " + llvm::join(found, ", ");
}

llvm::Error refuseCheckpoint(const std::string &path, const std::string &wanted) {
  const bool isOne = looksLikeCheckpoint(path);
  std::error_code ignored;
  if (fs::exists(path + "/plan.json", ignored) || !(isOne || holdsCheckpoints(path)))
    return llvm::Error::success();
  const auto step =
      isOne ? stepOf(fs::path(withoutSlash(path)).filename().string()) : std::optional<int64_t>();
  return makeError(ExitCode::BadArtifact,
                   fmt::format("{}: expected {}, got {} of a training{}", path, wanted,
                               isOne ? "a checkpoint" : "the checkpoints",
                               step ? fmt::format(" (step {})", *step) : ""),
                   fmt::format("pass what was trained, with --train --resume={0} to continue, or "
                               "put the weights into a model: pipe-merge --checkpoint {0} --into "
                               "MODEL.pt -o OUT.pt",
                               path));
}

} // namespace pipec

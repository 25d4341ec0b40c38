#include "ir/support/UnfinishedOutputs.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <utility>

namespace pipec {

namespace {

constexpr int kMostNames = 1000;

} // namespace

void UnfinishedPaths::insert(const std::string &path) {
  if (!paths_.insert(path).second || path.size() >= sizeof Copy::text)
    return;
  auto free = llvm::find_if(copies_, [](const Copy &copy) { return !copy.isUsed; });
  if (free == copies_.end())
    return;
  std::memcpy(free->text, path.c_str(), path.size() + 1);
  free->isUsed = true; // only now: the handler reads whole texts
}

bool UnfinishedPaths::erase(const std::string &path) {
  for (Copy &copy : copies_)
    if (copy.isUsed && path == copy.text)
      copy.isUsed = false;
  return paths_.erase(path) != 0;
}

void UnfinishedPaths::clear() {
  for (Copy &copy : copies_)
    copy.isUsed = false;
  paths_.clear();
}

void UnfinishedPaths::forEachAfterCrash(llvm::function_ref<void(const char *)> use) const {
  for (const Copy &copy : copies_)
    if (copy.isUsed)
      use(copy.text);
}

UnfinishedOutputs &unfinishedOutputs() {
  static UnfinishedOutputs outputs;
  return outputs;
}

void removeTree(const std::string &path) {
  if (std::remove(path.c_str()) == 0) // also where no more files may be opened
    return;
  // A writer may still be adding a file, so this tries a few times.
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error)
      return;
  }
}

UnfinishedDirectory::UnfinishedDirectory(UnfinishedDirectory &&other)
    : path_(std::exchange(other.path_, "")) {}

UnfinishedDirectory::~UnfinishedDirectory() {
  if (path_.empty())
    return;
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.paths.erase(path_))
    removeTree(path_);
}

std::error_code UnfinishedDirectory::make(const std::string &name) {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.abandoned)
    return std::make_error_code(std::errc::operation_canceled);
  std::string path = name;
  for (int suffix = 1; ::mkdir(path.c_str(), 0777) != 0; ++suffix) {
    if (errno != EEXIST || suffix == kMostNames)
      return {errno, std::generic_category()};
    path = name + "-" + std::to_string(suffix);
  }
  open.paths.insert(path);
  path_ = path;
  return {};
}

bool UnfinishedDirectory::isOpen() const { return unfinishedOutputs().paths.contains(path_); }

void UnfinishedDirectory::release() { unfinishedOutputs().paths.erase(std::exchange(path_, "")); }

std::error_code makeDirectories(const std::string &path) {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.abandoned)
    return std::make_error_code(std::errc::operation_canceled);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error;
}

bool stopPublications() {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.isDone && open.paths.empty())
    return false;
  open.abandoned = true;
  return true;
}

void abandonUnfinishedOutputs() {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  open.abandoned = true;
  for (const std::string &path : open.paths)
    removeTree(path);
  open.paths.clear();
}

} // namespace pipec

#include "ir/support/NewFile.h"

#include "ir/support/UnfinishedOutputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec {

NewFile::NewFile(const std::string &target) : target_(target) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  // A link is followed, even if its target does not exist yet; the link stays.
  for (int links = 0; links < 40 && fs::is_symlink(target_, ignored); ++links)
    target_ = (fs::path(target_).parent_path() / fs::read_symlink(target_, ignored)).string();
  direct_ = fs::exists(target_, ignored) && !fs::is_regular_file(target_, ignored);
  static std::atomic<int> counter;
  fs::path path(target_);
  temporary_ = direct_
                   ? target_
                   : (path.parent_path() /
                      fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), counter++))
                         .string();
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.abandoned) {
    errno_ = ECANCELED;
    return;
  }
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | (direct_ ? 0 : O_CREAT | O_EXCL), 0666);
  noteError(fd_ < 0);
  if (fd_ >= 0 && !direct_)
    open.paths.insert(temporary_);
}

NewFile::~NewFile() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.paths.erase(temporary_) && !published_)
    ::unlink(temporary_.c_str());
}

void NewFile::write(const void *bytes, size_t n) {
  // In steps, as cp does. For one large write the kernel allocates large pages from cold memory,
  // although warm memory is free.
  constexpr size_t kStep = size_t(256) << 10;
  const char *at = static_cast<const char *>(bytes);
  while (n > 0 && !errno_) {
    const ssize_t step = ::write(fd_, at, pastCache_ ? n : std::min(n, kStep));
    if (step < 0 && errno == EINTR)
      continue;
    if (step < 0 && errno == EINVAL && setPastCache(false))
      continue; // the file system refuses after all, or wrote an incomplete part
    noteError(step < 0);
    const size_t written = std::max<ssize_t>(step, 0);
    at += written;
    n -= written;
    startWriteback(written);
  }
}

void NewFile::goPastCache() {
  if (!direct_)
    setPastCache(true);
}

void NewFile::goThroughCache() { setPastCache(false); }

bool NewFile::setPastCache(bool past) {
  if (fd_ < 0 || past == pastCache_)
    return false;
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, past ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
    return false;
  pastCache_ = past;
  return true;
}

FileId NewFile::id() const {
  struct stat status;
  if (fd_ < 0 || ::fstat(fd_, &status) != 0)
    return {};
  return {status.st_dev, status.st_ino};
}

void NewFile::startWriteback(size_t written) {
  constexpr size_t kAtOnce = size_t(32) << 20;
  written_ += written;
  if (direct_ || pastCache_ || written_ - started_ < kAtOnce)
    return;
  started_ = written_;
  ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE); // a refusal costs time only
}

void NewFile::publish(bool replace) {
  if (errno_ || direct_)
    return;
  noteError(::fsync(fd_) != 0);
  moveToTarget(replace);
}

void NewFile::publishUnsynced() {
  if (!errno_ && !direct_)
    moveToTarget(/*replace=*/true);
}

void NewFile::moveToTarget(bool replace) {
  UnfinishedOutputs &open = unfinishedOutputs();
  std::lock_guard lock(open.mutex);
  if (open.abandoned && !errno_)
    errno_ = ECANCELED;
  noteError(!errno_ && !rename(replace));
  published_ = !errno_;
}

bool NewFile::rename(bool replace) const {
  if (replace)
    return ::rename(temporary_.c_str(), target_.c_str()) == 0;
  // A link is made only where nothing is, on every file system that has links.
  if (::link(temporary_.c_str(), target_.c_str()) == 0)
    return ::unlink(temporary_.c_str()) == 0;
  if (errno == EEXIST)
    return false;
  return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) ==
         0;
}

void NewFile::noteError(bool failed) {
  if (failed && !errno_)
    errno_ = errno;
}

} // namespace pipec

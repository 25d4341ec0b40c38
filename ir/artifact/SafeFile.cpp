#include "ir/artifact/SafeFile.h"

#include "ir/support/CannotRead.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/Sha256.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace pipec {

FileHandle &FileHandle::operator=(FileHandle &&other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0)
    ::close(fd_);
}

int FileHandle::release() { return std::exchange(fd_, -1); }

std::string systemMessage(int error) { return whyNotWritten(error).why; }

llvm::Expected<FileHandle> openDirectory(const std::string &path) {
  FileHandle directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.isOpen())
    return directory;
  return cannotRead(path, std::error_code(errno, std::generic_category()));
}

llvm::Expected<std::vector<std::string>> listDirectory(const FileHandle &directory,
                                                       const std::string &path) {
  // A descriptor of its own: fdopendir takes it over, and the position of the original must not
  // move.
  FileHandle own(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::unique_ptr<DIR, int (*)(DIR *)> stream(own.isOpen() ? ::fdopendir(own.get()) : nullptr,
                                              ::closedir);
  if (!stream)
    return failf(ExitCode::IO, "{}: cannot list directory: {}", path, systemMessage(errno));
  own.release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent *entry = ::readdir(stream.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back(std::move(name));
  }
  if (errno != 0)
    return failf(ExitCode::IO, "{}: cannot list directory: {}", path, systemMessage(errno));
  llvm::sort(names);
  return names;
}

llvm::Expected<FileHandle> openForReading(const FileHandle &directory, const std::string &name) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore it.
  FileHandle file(
      ::openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.isOpen()) {
    int error = errno;
    if (error == ELOOP)
      return failf(ExitCode::BadArtifact, "{}: expected a regular file, got a symbolic link", name);
    return failf(ExitCode::IO, "{}: cannot open: {}", name, systemMessage(error));
  }
  struct stat status;
  if (::fstat(file.get(), &status) != 0)
    return failf(ExitCode::IO, "{}: cannot read its status: {}", name, systemMessage(errno));
  if (!S_ISREG(status.st_mode))
    return failf(ExitCode::BadArtifact, "{}: expected a regular file, got {}", name,
                 S_ISDIR(status.st_mode) ? "a directory" : "a special file");
  if (status.st_nlink > 1)
    return failf(ExitCode::BadArtifact, "{}: expected one name for the file, got {} hard links",
                 name, size_t(status.st_nlink));
  return file;
}

/// The number of bytes read; 0 at the end of the file.
static llvm::Expected<size_t> readAt(const FileHandle &file, const std::string &name, size_t at,
                                     char *into, size_t size) {
  for (;;) {
    const ssize_t got = ::pread(file.get(), into, size, static_cast<off_t>(at));
    if (got >= 0)
      return static_cast<size_t>(got);
    if (errno != EINTR)
      return failf(ExitCode::IO, "{}: cannot read: {}", name, systemMessage(errno));
  }
}

llvm::Expected<std::string> readAll(const FileHandle &file, const std::string &name,
                                    uint64_t maxBytes) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0)
    return failf(ExitCode::IO, "{}: cannot read its status: {}", name, systemMessage(errno));
  if (static_cast<uint64_t>(status.st_size) > maxBytes)
    return failf(ExitCode::BadArtifact, "{}: too large: expected at most {} bytes, got {}", name,
                 maxBytes, int64_t(status.st_size));
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const size_t got = TRY(readAt(file, name, done, bytes.data() + done, bytes.size() - done));
    if (got == 0)
      return failf(ExitCode::IO, "{}: shrank while it was read: expected {} bytes, got {}", name,
                   bytes.size(), done);
    done += got;
  }
  return bytes;
}

llvm::Expected<std::string> sha256Of(const FileHandle &file, const std::string &name) {
  Sha256 hash;
  std::vector<char> buffer(size_t(1) << 20);
  for (size_t at = 0;;) {
    const size_t got = TRY(readAt(file, name, at, buffer.data(), buffer.size()));
    if (got == 0)
      return hash.hex();
    hash.update(llvm::StringRef(buffer.data(), got));
    at += got;
  }
}

llvm::Error writeNewFile(const FileHandle &directory, const std::string &name,
                         llvm::StringRef bytes) {
  FileHandle file(::openat(directory.get(), name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.isOpen())
    return failf(ExitCode::IO, "{}: cannot create: {}", name, systemMessage(errno));
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t put = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0) {
      int error = errno;
      struct statvfs space;
      if ((error == ENOSPC || error == EDQUOT) && ::fstatvfs(directory.get(), &space) == 0)
        return makeError(ExitCode::IO,
                         fmt::format("{}: disk full: {} more bytes needed, {} free", name,
                                     bytes.size() - done,
                                     uint64_t(space.f_bavail) * space.f_frsize),
                         "free some space, or write to another disk");
      return cannotWrite(name, error);
    }
    done += static_cast<size_t>(put);
  }
  return sync(file, name);
}

llvm::Error sync(const FileHandle &file, const std::string &name) {
  // EINVAL: a file system without fsync for this kind of file; there is nothing more to ask for.
  if (::fsync(file.get()) == 0 || errno == EINVAL)
    return llvm::Error::success();
  return failf(ExitCode::IO, "{}: cannot sync to disk: {}", name, systemMessage(errno));
}

} // namespace pipec

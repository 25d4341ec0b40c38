#include "ir/support/MappedFile.h"

#include "ir/support/CannotRead.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec {

namespace {

/// Closes a descriptor at the end of a scope: the mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

llvm::Error systemError(const std::string &path) {
  return cannotRead(path, std::error_code(errno, std::generic_category()));
}

} // namespace

llvm::Expected<std::shared_ptr<MappedFile>> MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK a FIFO would wait here for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info;
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0)
    return systemError(path);
  if (S_ISDIR(info.st_mode))
    return failf(ExitCode::Unreadable, "{}: expected a file, got a directory", path);
  if (!S_ISREG(info.st_mode))
    return failf(ExitCode::Unreadable, "{}: expected a regular file, got a device or pipe", path);
  if (info.st_size == 0)
    return failf(ExitCode::Unreadable, "{}: the file is empty", path);

  // NORESERVE: untouched weights need no swap space although the pages are writable.
  void *data = ::mmap(nullptr, info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      file.fd, 0);
  if (data == MAP_FAILED)
    return systemError(path);
  return std::shared_ptr<MappedFile>(
      new MappedFile(path, static_cast<char *>(data), info.st_size, {info.st_dev, info.st_ino}));
}

llvm::Expected<std::shared_ptr<MappedFile>> MappedFile::again() const {
  llvm::Expected<std::shared_ptr<MappedFile>> file = open(path_);
  if (file && ((*file)->id_ != id_ || (*file)->size_ != size_))
    return makeError(ExitCode::IO, path_ + ": was replaced by another file while it was in use",
                     "run the command again");
  return file;
}

void MappedFile::expectFewReads() { ::madvise(data_, size_, MADV_RANDOM); }

void MappedFile::expectReadOf(const char *bytes, size_t n) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(bytes - data_) / page * page;
  ::madvise(data_ + begin, static_cast<size_t>(bytes - data_) + n - begin, MADV_NORMAL);
}

MappedFile::~MappedFile() { ::munmap(data_, size_); }

} // namespace pipec

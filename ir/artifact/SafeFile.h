// Files read and written relative to a directory that is held open: no link is followed, and what
// was checked is what is read.
#pragma once

#include "ir/support/Error.h"

#include <string>
#include <vector>

namespace pipec {

/// Owns a file descriptor.
class FileHandle {
public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle &&other) noexcept : fd_(other.release()) {}
  FileHandle &operator=(FileHandle &&other) noexcept;
  ~FileHandle();
  int get() const { return fd_; }
  bool isOpen() const { return fd_ >= 0; }
  int release();

private:
  int fd_;
};

/// "No such file or directory (errno 2)" without the number: the system's words for the last error.
std::string systemMessage(int error);

/// Errors: IO.
llvm::Expected<FileHandle> openDirectory(const std::string &path);
/// Everything but "." and "..", sorted. Errors: IO.
llvm::Expected<std::vector<std::string>> listDirectory(const FileHandle &directory,
                                                       const std::string &path);

/// A regular file with one name. Errors: IO when it cannot be opened; BadArtifact for a link, a
/// directory, a device or a second hard link.
llvm::Expected<FileHandle> openForReading(const FileHandle &directory, const std::string &name);
/// Whole content, at most `maxBytes`. Errors: IO; BadArtifact when it is larger.
llvm::Expected<std::string> readAll(const FileHandle &file, const std::string &name,
                                    uint64_t maxBytes);
/// Streams it from the start. Errors: IO.
llvm::Expected<std::string> sha256Of(const FileHandle &file, const std::string &name);

/// A new file, written and synced. Errors: IO, with needed and free bytes when the disk is full.
llvm::Error writeNewFile(const FileHandle &directory, const std::string &name,
                         llvm::StringRef bytes);
/// Errors: IO.
llvm::Error sync(const FileHandle &file, const std::string &name);

} // namespace pipec

// Reads and writes files relative to an open directory. No link is followed, and the file that was
// checked is the file that is read. Hand-made because the files of C++ and LLVM are opened by their
// whole paths, with all links on them.
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

/// The system's text for an error number, without the number: "No such file or directory".
std::string systemMessage(int error);

/// Errors: IO.
llvm::Expected<FileHandle> openDirectory(const std::string &path);
/// All entries except "." and "..", sorted. Errors: IO.
llvm::Expected<std::vector<std::string>> listDirectory(const FileHandle &directory,
                                                       const std::string &path);

/// Opens a regular file with one name. Errors: IO if it cannot be opened; BadArtifact for a link, a
/// directory, a device or a second hard link.
llvm::Expected<FileHandle> openForReading(const FileHandle &directory, const std::string &name);
/// The whole content. Errors: IO; BadArtifact if it is larger than `maxBytes`.
llvm::Expected<std::string> readAll(const FileHandle &file, const std::string &name,
                                    uint64_t maxBytes);
/// Reads the file as a stream, from its start. Errors: IO.
llvm::Expected<std::string> sha256Of(const FileHandle &file, const std::string &name);

/// Writes and syncs a new file. Errors: IO; if the disk is full, with needed and free bytes.
llvm::Error writeNewFile(const FileHandle &directory, const std::string &name,
                         llvm::StringRef bytes);
/// Errors: IO.
llvm::Error sync(const FileHandle &file, const std::string &name);

} // namespace pipec

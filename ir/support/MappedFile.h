// A file in memory without reading it: pages are loaded on first access, writes stay private.
// Hand-made because the mappings of LLVM and LibTorch cannot tell the kernel that few reads follow.
#pragma once

#include "ir/support/Error.h"
#include "ir/support/FileId.h"

#include <memory>
#include <string>
#include <utility>

namespace pipec {

/// A private, writable mapping of a whole regular file. The file must not be truncated while it
/// lives.
class MappedFile {
public:
  /// Errors: IO (missing, no permission), Unreadable (a directory, not a regular file, empty), each
  /// naming the path.
  static llvm::Expected<std::shared_ptr<MappedFile>> open(const std::string &path);
  /// Another mapping of the same file, without what was written into this one. Errors: those of
  /// open(); IO if another file has this name by now.
  llvm::Expected<std::shared_ptr<MappedFile>> again() const;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  /// Tells the kernel that only a few scattered bytes will be read. It then does not read ahead,
  /// which may be megabytes each time.
  void expectFewReads();
  /// Turns read-ahead on again for these bytes of the file.
  void expectReadOf(const char *bytes, size_t n);

  char *data() const { return data_; }
  size_t size() const { return size_; }
  const FileId &id() const { return id_; }

private:
  MappedFile(std::string path, char *data, size_t size, const FileId &id)
      : path_(std::move(path)), data_(data), size_(size), id_(id) {}
  std::string path_;
  char *data_;
  size_t size_;
  FileId id_;
};

} // namespace pipec

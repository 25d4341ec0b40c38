// A file in memory without reading it: pages come from disk when touched, writes stay private.
#pragma once

#include "ir/support/Error.h"
#include "ir/support/FileId.h"

#include <memory>
#include <string>

namespace pipec {

/// A private, writable mapping of a whole regular file. The file must not be truncated while it
/// lives.
class MappedFile {
public:
  /// Errors: IO (missing, no permission), Unreadable (a directory, not a regular file, empty), each
  /// naming the path.
  static llvm::Expected<std::shared_ptr<MappedFile>> open(const std::string &path);
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  /// Little of it will be touched, here and there: the kernel need not read on from there, which
  /// may be megabytes each time.
  void expectFewReads();
  /// Not of these bytes, which are in it.
  void expectReadOf(const char *bytes, size_t n);

  char *data() const { return data_; }
  size_t size() const { return size_; }
  const FileId &id() const { return id_; }

private:
  MappedFile(char *data, size_t size, const FileId &id) : data_(data), size_(size), id_(id) {}
  char *data_;
  size_t size_;
  FileId id_;
};

} // namespace pipec

// A file that appears complete or not at all. Hand-made because llvm::TempFile can neither sync,
// refuse an existing target without a race, nor write past the kernel's cache.
#pragma once

#include "ir/support/FileId.h"

#include <string>

namespace pipec {

/// A file beside `target` that replaces it when all bytes are written. If that never happens, or a
/// signal ends the process, the file is removed. A device or pipe is written directly. The first
/// failure is kept: later calls do nothing. One thread at a time.
class NewFile {
public:
  explicit NewFile(const std::string &target);
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;
  ~NewFile();

  /// The path of the bytes until they are published.
  const std::string &path() const { return temporary_; }
  void write(const void *bytes, size_t n);
  /// From now on the disk reads bytes from the caller's memory instead of the kernel's cache.
  /// Addresses and sizes must be multiples of 4 KiB. If the file system cannot do that, nothing
  /// changes.
  void goPastCache();
  void goThroughCache();
  /// Syncs the file and renames it to the target. Without `replace` an existing file stays: EEXIST.
  void publish(bool replace = true);
  /// Renames it to the target without a sync, which is left to the caller.
  void publishUnsynced();
  /// errno of the first failure, 0 if there was none.
  int error() const { return errno_; }
  /// The identity of the file, independent of its name.
  FileId id() const;

private:
  void noteError(bool failed);
  /// Starts writing to disk while the caller makes the rest, so that a later sync takes less time.
  void startWriteback(size_t written);
  bool setPastCache(bool past);
  bool rename(bool replace) const;
  void moveToTarget(bool replace);

  std::string target_, temporary_;
  int fd_ = -1, errno_ = 0;
  size_t written_ = 0, started_ = 0; // bytes: written, on their way to the disk
  bool direct_ = false, published_ = false, pastCache_ = false;
};

} // namespace pipec

// A file that appears complete or not at all.
#pragma once

#include "ir/support/FileId.h"

#include <string>

namespace pipec {

/// A file beside `target` that takes its place when all bytes are there; removed when that never
/// happens, also on a signal. A device or pipe is written to directly. The first failure sticks:
/// later calls do nothing. One thread at a time.
class NewFile {
public:
  explicit NewFile(const std::string &target);
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;
  ~NewFile();

  /// Where the bytes are until they are published.
  const std::string &path() const { return temporary_; }
  void write(const void *bytes, size_t n);
  /// From here on the disk takes bytes from the caller's memory and not from the kernel's cache:
  /// memory and number of bytes must be multiples of 4 KiB. Where the file system cannot, all stays
  /// as it was.
  void goPastCache();
  void goThroughCache();
  /// Syncs it and gives it its name. Without `replace` a file that is there stays: EEXIST.
  void publish(bool replace = true);
  /// Gives it its name; to sync it is the caller's business.
  void publishUnsynced();
  /// errno of the first thing that went wrong, 0 when nothing did.
  int error() const { return errno_; }
  /// Which file it is, whatever its name becomes.
  FileId id() const;

private:
  void noteError(bool failed);
  /// The disk works while we make the rest: who syncs it later waits less.
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

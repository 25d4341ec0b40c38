// Writes many bytes into a new file, bypassing the kernel's cache. Hand-made because the streams of
// C++ and LLVM write through that cache, and their callers wait for the disk.
//
//   caller:        fills a buffer   fills the other one   ...
//   a thread:                       writes the first      ...
#pragma once

#include "ir/support/NewFile.h"
#include "llvm/ADT/StringRef.h"

#include <future>
#include <memory>

namespace pipec {

/// Copies the given bytes into buffers. A separate thread writes one buffer while the caller fills
/// the next. With `pastCache`, and if the file system supports it, the disk reads the buffer
/// directly. The kernel then needs no cache pages for bytes that may never be read here, and evicts
/// no pages of other files. Errors are those of the file.
class LargeFile {
public:
  LargeFile(NewFile &file, bool pastCache);
  LargeFile(const LargeFile &) = delete;
  LargeFile &operator=(const LargeFile &) = delete;
  /// Waits for the write in progress. Bytes that are still in the buffer are dropped.
  ~LargeFile();

  void write(llvm::StringRef bytes);
  /// Waits until all is written. Call it once, as the last call.
  void finish();

private:
  struct Buffer;
  void writeBuffer();
  void wait();

  NewFile &file_;
  std::unique_ptr<Buffer> filling_, writing_;
  std::future<void> underWay_; // the write of writing_
};

} // namespace pipec

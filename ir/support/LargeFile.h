// Many bytes into a new file, past the kernel's cache.
//
//   caller:        fills a buffer   fills the other one   ...
//   a thread:                       writes the first      ...
#pragma once

#include "ir/support/NewFile.h"
#include "llvm/ADT/StringRef.h"

#include <future>
#include <memory>

namespace pipec {

/// Copies what it is given into buffers, and writes those on a thread of its own while the next one
/// is filled. With `pastCache` the disk takes the bytes from the buffer where the file system can
/// do that: no page of the cache is found, filled and written back for what nobody may ever read
/// here, and nothing that others use is pushed out for it. Errors are those of the file.
class LargeFile {
public:
  LargeFile(NewFile &file, bool pastCache);
  LargeFile(const LargeFile &) = delete;
  LargeFile &operator=(const LargeFile &) = delete;
  /// Waits for what is being written; what is still in the buffer is dropped.
  ~LargeFile();

  void write(llvm::StringRef bytes);
  /// Waits until all is written. Once, and nothing after it.
  void finish();

private:
  struct Buffer;
  void writeBuffer();
  void wait();

  NewFile &file_;
  std::unique_ptr<Buffer> filling_, writing_;
  std::future<void> underWay_; // of writing_
};

} // namespace pipec

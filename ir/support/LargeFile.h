// Writes many bytes into a new file, bypassing the kernel's cache. Hand-made because the streams of
// C++ and LLVM write through that cache, and their callers wait for the disk.
//
//   caller:        fills a buffer   fills the next one   ...
//   a thread:                       writes the first     ...
#pragma once

#include "ir/support/NewFile.h"
#include "ir/support/PieceThread.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <memory>

namespace pipec {

/// Copies the given bytes into buffers. A separate thread writes full buffers while the caller
/// fills the next. With `pastCache`, and if the file system supports it, the disk reads the buffer
/// directly. The kernel then needs no cache pages for bytes that may never be read here, and evicts
/// no pages of other files. Errors are those of the file.
class LargeFile {
public:
  LargeFile(NewFile &file, bool pastCache);
  LargeFile(const LargeFile &) = delete;
  LargeFile &operator=(const LargeFile &) = delete;
  /// Waits for full buffers to be written. Bytes of the buffer that is being filled are dropped.
  ~LargeFile();

  void write(llvm::StringRef bytes);
  /// Waits until all is written. Call it once, as the last call.
  void finish();

private:
  struct Buffer;
  void writeBuffer();

  static constexpr size_t kBuffers = 4; // a slow write of the disk does not stop the caller at once
  NewFile &file_;
  std::array<std::unique_ptr<Buffer>, kBuffers> buffers_; // written in turn
  size_t filling_ = 0;                                    // the buffer that the caller fills
  PieceThread thread_;                                    // the last member: it reads the others
};

} // namespace pipec

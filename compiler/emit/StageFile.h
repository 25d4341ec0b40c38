// A TorchScript file while LibTorch writes it.
//
//   LibTorch -> Sink -> LargeFile's buffers and sha256     a thread
//                                 +-> the disk             a thread
#pragma once

#include "ir/support/Error.h"
#include "ir/support/LargeFile.h"
#include "ir/support/NewFile.h"
#include "ir/support/StreamDigest.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Takes what LibTorch's writer writes, and always all of it: the destructor of that writer throws,
/// and so ends the process, when bytes are refused. It remembers what went wrong.
class Sink {
public:
  using Take = std::function<void(llvm::StringRef)>;
  explicit Sink(Take take) : take_(std::move(take)) {}
  Sink(const Sink &) = delete;
  Sink &operator=(const Sink &) = delete;
  ~Sink();

  void put(llvm::StringRef bytes);
  /// The first thing that `take` threw, after which it was not called any more.
  llvm::Error takeError();

private:
  Take take_;
  std::optional<llvm::Error> error_;
  bool failed_ = false;
};

/// The file that becomes `path`, written and digested on other threads while the caller makes it.
class StageFile {
public:
  /// Bytes in `stable` do not wait in a copy, and their digests become known; those that went past
  /// the kernel's cache are noted there, for who would have to read them from the disk to compare
  /// them. Throws when the machine has no more threads.
  StageFile(std::string path, std::shared_ptr<StableBytes> stable, bool pastCache = false);
  StageFile(const StageFile &) = delete;
  StageFile &operator=(const StageFile &) = delete;

  Sink &sink() { return sink_; }
  /// Waits until all is there, gives the file its name and returns its sha256; to sync it is the
  /// caller's business. Once, by any thread. Errors: IO (path, reason), OutOfMemory, Internal.
  llvm::Expected<std::string> finish();

private:
  std::string path_;
  std::shared_ptr<StableBytes> stable_;
  bool pastCache_;
  uint64_t size_ = 0;
  std::vector<std::pair<uint64_t, llvm::StringRef>> written_; // of `stable`, with their offsets
  NewFile file_;
  LargeFile writing_;
  StreamDigest digest_;
  Sink sink_;
};

} // namespace pipec

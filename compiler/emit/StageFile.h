// Receives a TorchScript file while LibTorch writes it.
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

/// Takes the output of LibTorch's writer, and always accepts all of it: if bytes are refused, that
/// writer's destructor throws and so ends the process. The sink keeps the first error.
class Sink {
public:
  using Take = std::function<llvm::Error(llvm::StringRef)>;
  explicit Sink(Take take) : take_(std::move(take)) {}
  Sink(const Sink &) = delete;
  Sink &operator=(const Sink &) = delete;
  ~Sink();

  void put(llvm::StringRef bytes);
  /// The first error or exception of `take`, which is not called again after it.
  llvm::Error takeError();

private:
  Take take_;
  std::optional<llvm::Error> error_;
  bool failed_ = false;
};

/// The file that becomes `path`. Other threads write and hash it while the caller makes it.
class StageFile {
public:
  /// Bytes in `stable` are not copied, and their digests become known. Bytes that bypassed the
  /// kernel's cache are recorded there, because comparing them later would read the disk. Throws if
  /// the machine has no more threads.
  StageFile(std::string path, std::shared_ptr<StableBytes> stable, bool pastCache = false);
  StageFile(const StageFile &) = delete;
  StageFile &operator=(const StageFile &) = delete;

  Sink &sink() { return sink_; }
  /// Waits until all is written, renames the file and returns its sha256. Syncing is left to the
  /// caller. Call it once, on any thread. Errors: IO (path, reason), OutOfMemory, Internal.
  llvm::Expected<std::string> finish();

private:
  std::string path_;
  std::shared_ptr<StableBytes> stable_;
  bool pastCache_;
  uint64_t size_ = 0;
  std::vector<std::pair<uint64_t, llvm::StringRef>> written_; // bytes of `stable`, with their
                                                              // offsets
  NewFile file_;
  LargeFile writing_;
  StreamDigest digest_;
  Sink sink_;
};

} // namespace pipec

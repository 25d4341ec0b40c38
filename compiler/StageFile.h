// A TorchScript file while LibTorch writes it.
//
//   LibTorch -> Sink -+-> NewFile::write     a thread
//                     +-> sha256             a thread
#pragma once

#include "ir/NewFile.h"
#include "ir/plan/Error.h"
#include "ir/plan/PieceThread.h"
#include "ir/plan/StreamDigest.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

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
  /// Bytes in `stable` are not copied, and their digests become known. Throws when the machine has
  /// no more threads.
  StageFile(std::string path, std::shared_ptr<StableBytes> stable);
  StageFile(const StageFile &) = delete;
  StageFile &operator=(const StageFile &) = delete;

  Sink &sink() { return sink_; }
  /// Waits until all is there, gives the file its name and returns its sha256; to sync it is the
  /// caller's business. Once, by any thread. Errors: IO (path, reason), OutOfMemory, Internal.
  llvm::Expected<std::string> finish();

private:
  std::string path_;
  std::shared_ptr<StableBytes> stable_;
  NewFile file_;
  StreamDigest digest_;
  PieceThread writing_;
  Sink sink_;
};

} // namespace pipec

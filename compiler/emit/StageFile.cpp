#include "compiler/emit/StageFile.h"

#include "ir/TorchError.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/Try.h"

namespace pipec {

// If an error is left here, another error has ended the writing already and is reported.
Sink::~Sink() { llvm::consumeError(takeError()); }

llvm::Error Sink::takeError() {
  if (!error_)
    return llvm::Error::success();
  llvm::Error error = std::move(*error_);
  error_.reset();
  return error;
}

void Sink::put(llvm::StringRef bytes) {
  if (failed_)
    return;
  if (llvm::Error error = guardTorchError(ExitCode::Internal, "writing TorchScript",
                                          [&] { return take_(bytes); })) {
    failed_ = true;
    error_.emplace(std::move(error));
  }
}

StageFile::StageFile(std::string path, std::shared_ptr<StableBytes> stable, bool pastCache)
    : path_(std::move(path)), stable_(std::move(stable)), pastCache_(pastCache), file_(path_),
      writing_(file_, pastCache),
      digest_(stable_, [this](llvm::StringRef bytes) { writing_.write(bytes); }),
      sink_([this](llvm::StringRef bytes) {
        if (pastCache_ && stable_->has(bytes))
          written_.emplace_back(size_, bytes);
        size_ += bytes.size();
        digest_.append(bytes);
        return llvm::Error::success();
      }) {}

llvm::Expected<std::string> StageFile::finish() {
  TRY(sink_.takeError());
  llvm::Expected<std::string> digest =
      guardTorch(ExitCode::Internal, path_ + ": writing and digesting it", [&] {
        std::string sha256 = digest_.finish();
        writing_.finish();
        file_.publishUnsynced();
        return sha256;
      });
  if (digest && file_.error())
    return cannotWrite(path_, file_.error());
  if (digest)
    for (const auto &[offset, bytes] : written_)
      stable_->noteWritten(file_.id(), offset, bytes);
  return digest;
}

} // namespace pipec

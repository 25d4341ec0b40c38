#include "compiler/StageFile.h"

#include "ir/TorchError.h"

#include <cstring>

namespace pipec {

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
  if (llvm::Error error =
          guardTorchVoid(ExitCode::Internal, "writing TorchScript", [&] { take_(bytes); })) {
    failed_ = true;
    error_.emplace(std::move(error));
  }
}

StageFile::StageFile(std::string path, std::shared_ptr<StableBytes> stable)
    : path_(std::move(path)), stable_(std::move(stable)), file_(path_), digest_(stable_),
      writing_([this](llvm::StringRef bytes) { file_.write(bytes.data(), bytes.size()); }),
      sink_([this](llvm::StringRef bytes) {
        digest_.append(bytes);
        if (stable_->has(bytes))
          writing_.appendStable(bytes);
        else
          writing_.append(bytes);
      }) {}

llvm::Expected<std::string> StageFile::finish() {
  if (llvm::Error error = sink_.takeError())
    return std::move(error);
  llvm::Expected<std::string> digest =
      guardTorch(ExitCode::Internal, path_ + ": writing and digesting it", [&] {
        writing_.finish();
        file_.publishUnsynced();
        return digest_.finish();
      });
  if (digest && file_.error())
    return failf(ExitCode::IO, "{}: cannot write: {}", path_, std::strerror(file_.error()));
  return digest;
}

} // namespace pipec

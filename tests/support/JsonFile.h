// A file of JSON, for the published instances that tests and benchmarks read.
#pragma once

#include "ir/support/Json.h"
#include "llvm/Support/MemoryBuffer.h"

namespace pipec {

/// Errors: Unreadable, naming the path.
inline llvm::Expected<llvm::json::Value> readJsonFile(const std::string &path) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return failf(ExitCode::Unreadable, "{}: {}", path, file.getError().message());
  JsonLimits limits;
  limits.what = path;
  limits.code = ExitCode::Unreadable;
  return parseJson((*file)->getBuffer(), limits);
}

} // namespace pipec

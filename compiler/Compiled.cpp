#include "compiler/Compiled.h"

#include "ir/artifact/ArtifactWriter.h"
#include "ir/artifact/Manifest.h"
#include "ir/support/Try.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

namespace pipec {

namespace {

llvm::Error copyFiles(const std::string &from, const std::string &to) {
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(from, error)) {
    std::string name = entry.path().filename().string();
    if (name == kManifestName) // written again, over the copies
      continue;
    std::filesystem::copy_file(entry.path(), to + "/" + name, error);
    if (error)
      return failf(ExitCode::IO, "{}: cannot copy {}: {}", to, name, error.message());
  }
  if (error)
    return failf(ExitCode::IO, "{}: cannot read: {}", from, error.message());
  return llvm::Error::success();
}

std::string manifestOf(const std::string &directory) {
  auto text = llvm::MemoryBuffer::getFile(directory + "/" + kManifestName);
  return text ? (*text)->getBuffer().str() : "";
}

} // namespace

Compiled::Compiled(CompileReport report, std::unique_ptr<ArtifactWriter> files)
    : report_(std::move(report)), files_(std::move(files)) {}
Compiled::Compiled(Compiled &&) = default;
Compiled::~Compiled() = default;

llvm::Error Compiled::save(const std::string &dir, bool force) const {
  ArtifactWriter writer = TRY(ArtifactWriter::create(dir, force));
  TRY(copyFiles(files_->directory(), writer.directory()));
  TRY(writer.writeManifest());
  // The proof holds for the files as they were at the end of the compile.
  if (manifestOf(writer.directory()) != manifestOf(files_->directory()))
    return failf(ExitCode::IO, "{}: the copies differ from the files in {}", dir,
                 files_->directory());
  return writer.publish();
}

} // namespace pipec

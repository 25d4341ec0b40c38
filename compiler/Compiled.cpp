#include "compiler/Compiled.h"

#include "ir/artifact/ArtifactWriter.h"
#include "ir/artifact/Manifest.h"
#include "ir/support/CannotRead.h"
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

llvm::Expected<std::string> manifestOf(const std::string &directory) {
  const std::string path = directory + "/" + kManifestName;
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return cannotRead(path, text.getError());
  return (*text)->getBuffer().str();
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
  const std::string copied = TRY(manifestOf(writer.directory()));
  const std::string compiled = TRY(manifestOf(files_->directory()));
  if (copied != compiled)
    return failf(ExitCode::IO, "{}: the copies differ from the files in {}", dir,
                 files_->directory());
  return writer.publish();
}

} // namespace pipec

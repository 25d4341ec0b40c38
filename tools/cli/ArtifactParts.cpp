#include "tools/cli/ArtifactParts.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

namespace pipec {

ReproducerParts artifactParts(const std::string &path) {
  ReproducerParts parts;
  if (!llvm::sys::fs::is_directory(path)) {
    parts.about = "model " + path + "\n\nThe model is not here: the command runs on it.\n";
    return parts;
  }
  for (const char *name : {"plan.json", "schedule.csv", "MANIFEST"})
    if (auto buffer = llvm::MemoryBuffer::getFile(path + "/" + name))
      parts.files.emplace_back(name, (*buffer)->getBuffer().str());
  parts.about =
      "artifact " + path +
      "\n\nplan.json, schedule.csv and MANIFEST are the artifact's. Its stages hold weights "
      "and are not here:\nthe command runs on the artifact.\n";
  return parts;
}

} // namespace pipec

#include "tools/run/RunFiles.h"

#include "ir/support/OutputPlace.h"

namespace pipec {

namespace {

struct NamedFile {
  const char *name; // of the option
  std::string path; // empty: not given
};

} // namespace

llvm::Error checkDistinctFiles(const RunCommand &command) {
  const TrainOptions none;
  const TrainOptions &training = command.training ? *command.training : none;
  std::vector<NamedFile> taken = {
      {"the model", command.model},           {"--inputs", command.inputs},
      {"--targets", training.source.targets}, {"--schedule", command.schedule},
      {"--expect", command.expect},           {"--data", training.source.data},
      {"--eval-data", training.evalData},     {"--loss", training.loss}};
  for (const NamedFile &output : {NamedFile{"--output", command.output},
                                  {"--trace", command.trace ? command.trace->getValue() : ""},
                                  {"--emit-grads", training.emitGrads}}) {
    for (const NamedFile &other : taken)
      if (!output.path.empty() && !other.path.empty() && isSameFile(output.path, other.path))
        return failf(ExitCode::Usage, "{}: expected another file than that of {}, got {}",
                     output.name, other.name, output.path);
    taken.push_back(output);
  }
  return llvm::Error::success();
}

} // namespace pipec

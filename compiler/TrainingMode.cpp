#include "compiler/TrainingMode.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"

namespace pipec {

llvm::Expected<TrainingModules>
trainingModulesOf(const std::string &path, const std::string &method, const SourceMode &mode) {
  torch::jit::Module module = TRY(loadSource(path, mode));
  return guardTorch(ExitCode::Unreadable, path + ": reading training flags",
                    [&] { return trainingModules(module, method); });
}

} // namespace pipec

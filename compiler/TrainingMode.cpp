#include "compiler/TrainingMode.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"

namespace pipec {

llvm::Expected<TrainingModules> trainingModulesOf(SourceCopies &source, const std::string &path,
                                                  const std::string &method) {
  torch::jit::Module module = TRY(source.next(Prints::Removed));
  return guardTorch(ExitCode::Unreadable, path + ": reading training flags",
                    [&] { return trainingModulesWithLoss(module, method, source.joinedLoss()); });
}

} // namespace pipec

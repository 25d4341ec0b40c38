#include "tools/cli/TorchMain.h"

#include "ir/TorchError.h"

namespace pipec {

int toolMain(int argc, char **argv, const ToolInfo &info,
             llvm::function_ref<llvm::Expected<ExitCode>()> body) {
  return plainToolMain(argc, argv, info, body,
                       [](const std::string &doing, llvm::function_ref<llvm::Error()> guarded) {
                         return guardTorchError(ExitCode::Internal, doing, guarded);
                       });
}

} // namespace pipec

#include "ir/torchfile/SourceCopies.h"

#include "ir/NodeInfo.h"
#include "ir/graph/Dropout.h"
#include "ir/support/Try.h"
#include "ir/torchfile/ModuleCopy.h"
#include "ir/torchfile/TorchFile.h"

namespace pipec {

llvm::Expected<torch::jit::Module> SourceCopies::read() const {
  torch::jit::Module module = TRY(loadSource(path_, mode_));
  if (dropsNothing_)
    pipec::turnOffDropout(module);
  return module;
}

llvm::Expected<torch::jit::Module> SourceCopies::next(Prints prints) {
  std::unique_lock lock(mutex_);
  if (!isShared_) {
    torch::jit::Module module = TRY(read());
    if (prints == Prints::Kept && anyNodeInside(module, isPrint))
      return module;
    removePrints(module);
    isShared_ = canBeCopied(module);
    if (!*isShared_)
      return module;
    original_ = std::move(module);
  }
  lock.unlock();
  if (*isShared_)
    return copyOf(*original_);
  torch::jit::Module module = TRY(read());
  removePrints(module);
  return module;
}

} // namespace pipec

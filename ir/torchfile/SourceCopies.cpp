#include "ir/torchfile/SourceCopies.h"

#include "ir/NodeInfo.h"
#include "ir/graph/Dropout.h"
#include "ir/support/Try.h"
#include "ir/torchfile/ModuleCopy.h"
#include "ir/torchfile/TorchFile.h"

namespace pipec {

llvm::Expected<SourceModule> SourceCopies::read() const {
  SourceModule source = TRY(loadSource(path_, mode_));
  if (dropsNothing_)
    pipec::turnOffDropout(source.module);
  return source;
}

std::optional<JoinedLoss> SourceCopies::joinedLoss() {
  const std::lock_guard lock(mutex_);
  return loss_;
}

llvm::Expected<torch::jit::Module> SourceCopies::next(Prints prints) {
  std::unique_lock lock(mutex_);
  if (!isShared_) {
    SourceModule source = TRY(read());
    loss_ = std::move(source.loss);
    torch::jit::Module module = std::move(source.module);
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
  SourceModule source = TRY(read());
  removePrints(source.module);
  return std::move(source.module);
}

} // namespace pipec

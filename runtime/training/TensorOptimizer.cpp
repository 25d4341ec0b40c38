#include "runtime/training/TensorOptimizer.h"

#include "runtime/training/Adam.h"
#include "runtime/training/RmsProp.h"

namespace pipec {

std::unique_ptr<TensorOptimizer> makeTensorOptimizer(const NamedSettings &settings) {
  if (settings.name == "adam" || settings.name == "adamw")
    return std::make_unique<Adam>(settings);
  if (settings.name == "rmsprop")
    return std::make_unique<RmsProp>(settings);
  return nullptr;
}

} // namespace pipec

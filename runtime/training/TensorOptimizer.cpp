#include "runtime/training/TensorOptimizer.h"

#include "ir/support/Check.h"
#include "runtime/training/Adagrad.h"
#include "runtime/training/Adam.h"
#include "runtime/training/RmsProp.h"
#include "runtime/training/Sgd.h"

namespace pipec {

std::unique_ptr<TensorOptimizer> makeTensorOptimizer(const NamedSettings &settings) {
  if (settings.name == "sgd")
    return std::make_unique<Sgd>(settings);
  if (settings.name == "adam" || settings.name == "adamw")
    return std::make_unique<Adam>(settings);
  if (settings.name == "rmsprop")
    return std::make_unique<RmsProp>(settings);
  PIPEC_ASSERT(settings.name == "adagrad", "an optimizer of the table");
  return std::make_unique<Adagrad>(settings);
}

} // namespace pipec

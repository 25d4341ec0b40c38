#include "ir/support/Version.h"

#include <torch/headeronly/version.h>

namespace pipec {

std::string pipecVersion() { return PIPEC_VERSION; }
std::string torchVersion() { return TORCH_VERSION; }

} // namespace pipec

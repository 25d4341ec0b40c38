#include "ir/support/Version.h"

namespace pipec {

std::string pipecVersion() { return PIPEC_VERSION; }
std::string torchVersion() { return PIPEC_TORCH_VERSION; }

} // namespace pipec

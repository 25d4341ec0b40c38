#include "tools/ModelPrints.h"

#include <torch/csrc/jit/runtime/print_handler.h>

#include <cstdio>

namespace pipec {

void sendModelPrintsToStderr() {
  // Several ranks may print at once: stdio keeps each text whole.
  torch::jit::setPrintHandler([](const std::string &text) { std::fputs(text.c_str(), stderr); });
}

} // namespace pipec

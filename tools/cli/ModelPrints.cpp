#include "tools/cli/ModelPrints.h"

#include "ir/InferenceSettings.h"
#include "tools/cli/ProgressLine.h"
#include "tools/cli/ToolMain.h"

#include <torch/csrc/jit/runtime/print_handler.h>

#include <cstdio>
#include <mutex>
#include <set>

namespace pipec {

namespace {

void printOnce(const std::string &text) {
  static std::mutex mutex; // several ranks may warn at once
  static std::set<std::string> known;
  std::lock_guard lock(mutex);
  if (known.insert(text).second)
    aboveProgress([&] { printWarning("running the model: " + text); });
}

} // namespace

void sendModelPrintsToStderr() {
  // Several ranks may print at once: stdio keeps each text whole.
  torch::jit::setPrintHandler(
      [](const std::string &text) { aboveProgress([&] { std::fputs(text.c_str(), stderr); }); });
  sendWarningsTo(printOnce);
}

} // namespace pipec

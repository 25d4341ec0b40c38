// The thread settings under which pipec runs models. They affect the bits of the results.
#pragma once

#include <string>

namespace c10 {
class WarningHandler;
}

namespace pipec {

/// May be called from any thread.
using TakeWarning = void (*)(const std::string &text);

/// Sends warnings of models and of LibTorch's operators to `take`. By default LibTorch writes them
/// to stderr. Applies to this thread at once, and to any other thread while it has
/// InferenceSettings.
void sendWarningsTo(TakeWarning take);

/// While alive, on this thread: gradients are off, the graph optimiser is off (a profiled graph
/// gives other bits from its second run on), and an operator uses `intraOpThreads` threads (0:
/// unchanged).
class InferenceSettings {
public:
  explicit InferenceSettings(int intraOpThreads = 0);
  ~InferenceSettings();
  InferenceSettings(const InferenceSettings &) = delete;
  InferenceSettings &operator=(const InferenceSettings &) = delete;

private:
  bool grad_, optimize_;
  int threads_;
  c10::WarningHandler *warnings_;
};

} // namespace pipec

// The thread settings under which pipec runs models: they decide the bits.
#pragma once

#include <string>

namespace c10 {
class WarningHandler;
}

namespace pipec {

/// Any thread calls it.
using TakeWarning = void (*)(const std::string &text);

/// From now on what models and LibTorch's operators warn of goes to `take`, and not to stderr as
/// LibTorch writes it: on this thread, and on each other while InferenceSettings live there.
void sendWarningsTo(TakeWarning take);

/// While alive, on this thread: no gradients, graph optimiser off (a profiled graph gives other
/// bits from its second run on), and `intraOpThreads` threads inside an operator (0: as they are).
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

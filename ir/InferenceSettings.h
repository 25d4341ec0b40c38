// The thread settings under which pipec runs models: they decide the bits.
#pragma once

namespace pipec {

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
};

} // namespace pipec

// The thread settings under which pipec trains models: they decide the bits.
#pragma once

#include "ir/InferenceSettings.h"

namespace pipec {

/// While alive, on this thread: as InferenceSettings, but with gradients, and backwards stay on
/// this thread.
class TrainingSettings {
public:
  explicit TrainingSettings(int intraOpThreads = 1);
  ~TrainingSettings();
  TrainingSettings(const TrainingSettings &) = delete;
  TrainingSettings &operator=(const TrainingSettings &) = delete;

private:
  InferenceSettings settings_; // restores the grad mode, too
  bool backwardThreads_;
};

} // namespace pipec

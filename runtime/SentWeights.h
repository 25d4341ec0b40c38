// Which weights other ranks already have in their current state, so that only changed ones are
// sent.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <utility>

namespace pipec {

/// Of one rank, used by its thread.
class SentWeights {
public:
  /// Whether the value of a weight channel has changed since it was last sent over the lane. True
  /// notes it as sent. Always true for what may change without a count: values that are written by
  /// the model, and those that are no tensors. `updates`: of the rank's optimizers.
  bool isNews(size_t lane, size_t channel, const StageAttribute &about, const c10::IValue &value,
              uint64_t updates);
  /// After a failed step: nothing is known of the other ranks.
  void forget() { last_.clear(); }

private:
  /// A weight at a time. Its own counter misses writes that an optimizer of the user hides from
  /// autograd.
  struct Version {
    at::Tensor tensor;
    uint32_t writes = 0;  // in place, counted by the tensor
    uint64_t updates = 0; // of this rank, if it trains the weight

    bool operator==(const Version &other) const {
      return tensor.is_same(other.tensor) && writes == other.writes && updates == other.updates;
    }
  };
  std::map<std::pair<size_t, size_t>, Version> last_; // by lane and weight channel
};

} // namespace pipec

// Keyed randomness: the numbers of a random operator depend only on (seed, step, micro-batch,
// ordinal in the source).
#pragma once

#include <cstdint>
#include <vector>

namespace pipec {

struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t microBatch = 0;
};

/// While alive, random operators on this thread draw from the key. Each OUTERMOST run of an
/// operator of ir/RandomOps.h takes the next ordinal, unless its arguments switch drawing off. Each
/// draw inside it has its own generator, seeded by (seed, step, micro-batch, ordinal, number of the
/// draw). An operator that is called with a generator uses that generator, but takes its ordinal.
///
/// `ordinals`: of the operators that will run, in order, as the plan lists them for a stage. Runs
/// beyond the end count on from the last, so a stage with a loop has the numbers of the whole
/// model. Empty: 0, 1, 2, ... as in the whole model.
///
/// A scope costs under a microsecond per operator inside it, so open it only around random
/// operators. Scopes do not nest. CPU and CUDA draw different numbers from the same key.
class RandomScope {
public:
  RandomScope(const RandomKey &key,
              const std::vector<int64_t> &ordinals); // `ordinals` must outlive the scope
  ~RandomScope();
  RandomScope(const RandomScope &) = delete;
  RandomScope &operator=(const RandomScope &) = delete;

  /// Ordinals taken so far.
  uint64_t taken() const;
};

} // namespace pipec

// Keyed randomness: what a random operator draws depends on (seed, step, micro-batch, ordinal in
// the source) and on nothing else.
#pragma once

#include <cstdint>
#include <vector>

namespace pipec {

struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t microBatch = 0;
};

/// While it lives, random operators that this thread runs draw from the key: each OUTERMOST run of
/// an operator of ir/RandomOps.h that its
/// arguments do not switch off takes the next ordinal, and each draw inside it has a generator of
/// its own, seeded by (seed, step, micro-batch, ordinal, number of the draw). An operator called
/// with a generator keeps that one, but takes its ordinal.
///
/// `ordinals`: of the operators that will run, in order, as the plan lists them for a stage; runs
/// beyond the end count on from the last (so that a stage with a loop numbers like the whole
/// model). Empty: 0, 1, 2, ... as in the whole model. Must outlive the scope.
///
/// A scope costs under a microsecond per operator inside it: open it only where random operators
/// are. Scopes do not nest. CPU and CUDA draw different numbers from the same key.
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

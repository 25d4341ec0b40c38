#include "runtime/RankCores.h"

#include "llvm/ADT/STLExtras.h"
#include "runtime/Resources.h"

#include <sched.h>

namespace pipec {

RankCores::RankCores(size_t ranks)
    : cores_(ranks > 1 && ranks <= static_cast<size_t>(usableCores()) ? ranks : 0) {
  for (std::atomic<int> &core : cores_)
    core = kNone;
}

void RankCores::settle(size_t rank) {
  if (cores_.empty())
    return;
  const int core = sched_getcpu();
  if (core < 0)
    return;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (cores_[rank].load(kRelaxed) != core)
    cores_[rank].store(core, kRelaxed);
  for (size_t other = 0; other < cores_.size(); ++other)
    if (other != rank && cores_[other].load(kRelaxed) == core)
      return moveAway(rank);
}

void RankCores::leave(size_t rank) {
  if (!cores_.empty())
    cores_[rank] = kNone;
}

/// Without a result: a rank that stays where it is only takes longer.
void RankCores::moveAway(size_t rank) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || llvm::is_contained(cores_, core))
      continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    cores_[rank] = core;
    if (sched_setaffinity(0, sizeof(only), &only) == 0) // returns when the thread runs there
      sched_setaffinity(0, sizeof(allowed), &allowed);
    return;
  }
}

} // namespace pipec

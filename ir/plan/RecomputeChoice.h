// Recomputation in a training, as options and planner name it.
#pragma once

namespace pipec {

/// Which stages run their forward again in the backward. Auto: those for which memory is too small.
enum class RecomputeChoice { Never, Always, Auto };

} // namespace pipec

// The links and devices of a cluster in the simulator's form.
#pragma once

#include "ir/costs/Cluster.h"
#include "ir/schedule/ProgramCosts.h"

namespace pipec {

/// Fills links, linkOf and deviceOfRank for the messages and reductions of `program`. Rank r is on
/// device r modulo the number of devices. Ranks of one device take turns and exchange values
/// without a link. The device pairs of a shared link share it in both directions. Of any other link
/// every ordered pair has its own copy.
void placeOn(const Cluster &cluster, const Program &program, ProgramCosts &costs);

} // namespace pipec

// Collectives between ranks that are threads of one process.
#pragma once

#include "runtime/Device.h"
#include "runtime/transport/Collectives.h"

#include <memory>

namespace pipec {

/// `devices`: one per rank.
std::unique_ptr<Collectives> makeInProcessCollectives(std::vector<std::vector<size_t>> groups,
                                                      std::vector<std::shared_ptr<Device>> devices);

} // namespace pipec

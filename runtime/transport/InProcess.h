// Transport between ranks that are threads of one process: values are handed over by reference.
#pragma once

#include "ir/schedule/Program.h"
#include "runtime/Device.h"
#include "runtime/transport/Transport.h"

#include <memory>

namespace pipec {

/// `devices`: one per rank. Values are copied only if the two ranks of a lane have different
/// devices.
std::unique_ptr<Transport>
makeInProcessTransport(const std::vector<Lane> &lanes,
                       const std::vector<std::shared_ptr<Device>> &devices);

} // namespace pipec

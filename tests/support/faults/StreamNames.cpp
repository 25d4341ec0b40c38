// pipe-run --device test:0,test:1 in a test build: CPU memory, and streams that only their fences
// put into an order.
#include "tests/support/streams/StreamDevice.h"

namespace pipec {

namespace {

const bool kOpened = [] {
  test::openStreamDevices(/*cpuToo=*/false);
  return true;
}();

} // namespace

} // namespace pipec

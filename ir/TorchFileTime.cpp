#include "ir/TorchFileTime.h"

namespace pipec {

static thread_local int64_t spent = 0;

int64_t torchFileNs() { return spent; }

TorchFileTimer::~TorchFileTimer() {
  spent += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start_)
               .count();
}

} // namespace pipec

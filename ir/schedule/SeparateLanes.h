// A program whose messages can be taken in any order.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// The same program with one lane per message. A lane's order no longer says which message comes
/// next, so ranks may run their ops in any order that their values allow, and no SEND waits.
Program separateLanes(const Program &program);

} // namespace pipec

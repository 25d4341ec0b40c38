// The two operators of pipec: the author's marker and the compiler's stage boundary.
#pragma once

#include <ATen/core/symbol.h>

namespace pipec {

/// Registers pipec::cut() -> (), a stage boundary in a flat graph that does nothing when run, and
/// pipec::pipe_split(Tensor(a) x) -> Tensor(a), the marker as an operator. An operator that a
/// loaded library already registered stays. Call this before any graph that contains them is parsed
/// or loaded. Thread-safe.
void registerMarkerOps();

/// pipec::cut
c10::Symbol cutSymbol();
/// pipec::pipe_split
c10::Symbol pipeSplitSymbol();

} // namespace pipec

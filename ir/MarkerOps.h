// The two operators of pipec: the author's marker and the compiler's stage boundary.
#pragma once

#include <ATen/core/symbol.h>

namespace pipec {

/// Registers pipec::cut() -> () (a stage boundary in a flat graph; does nothing when run) and
/// pipec::pipe_split(Tensor(a) x) -> Tensor(a) (the marker as an operator) unless a loaded library
/// already has. Call before any graph with them is parsed or loaded. Thread-safe.
void registerMarkerOps();

/// pipec::cut
c10::Symbol cutSymbol();
/// pipec::pipe_split
c10::Symbol pipeSplitSymbol();

} // namespace pipec

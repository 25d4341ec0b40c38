// Which types have memory.
#pragma once

#include <ATen/core/jit_type_base.h>

namespace pipec {

/// True if a value of the type may be, or hold, memory that can be written: tensors, containers,
/// objects.
bool hasMemory(const c10::Type &type);
/// True for types whose memory may hold other memory: list, tuple, dict, object, future, or a type
/// that may be one of these.
bool mayHold(const c10::Type &type);

} // namespace pipec

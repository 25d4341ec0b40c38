// Which types have memory.
#pragma once

#include <ATen/core/jit_type_base.h>

namespace pipec {

/// True when a value of the type may be, or hold, memory that somebody can write: tensors,
/// containers, objects.
bool hasMemory(const c10::Type &type);
/// List, tuple, dict, object, future or a type that may be one: memory that may hold other memory.
bool mayHold(const c10::Type &type);

} // namespace pipec

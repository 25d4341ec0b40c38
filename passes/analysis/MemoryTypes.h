// Which types have memory.
#pragma once

#include <ATen/core/jit_type_base.h>

namespace pipec {

/// True if a value of the type may be, or hold, memory that can be written: tensors, containers,
/// objects.
bool hasMemory(const c10::Type &type);

/// Whether the type is a tensor's, or a container's with one inside. False for what hides its
/// parts: an object, Any.
bool holdsTensors(const c10::Type &type);
/// The same on the safe side: true for what hides its parts.
bool mayHoldTensor(const c10::Type &type);
/// True for types whose memory may hold other memory: list, tuple, dict, object, future, or a type
/// that may be one of these.
bool mayHold(const c10::Type &type);

} // namespace pipec

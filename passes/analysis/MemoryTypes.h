// Which types have memory, and which operators alias more than their schema tells.
#pragma once

#include <ATen/core/jit_type_base.h>
#include <ATen/core/symbol.h>

namespace torch::jit {
struct Node;
}

namespace pipec {

/// True when a value of the type may be, or hold, memory that somebody can write: tensors,
/// containers, objects.
bool hasMemory(const c10::Type &type);
/// List, tuple, dict, object, future or a type that may be one: memory that may hold other memory.
bool mayHold(const c10::Type &type);

/// The operator may return its input (or an element of an input list, or a view) although its
/// schema says that the result is fresh: eval dropout, type_as, unsafe_chunk, einsum, ...
bool mayReturnInput(const torch::jit::Node *node);

/// Of an operator that writes: it may give the tensor that it gets another rank or dtype in place.
/// So do unsqueeze_, set_, any out= argument, and what is no operator of LibTorch.
bool mayChangeRank(const torch::jit::Node *writer);
/// The same for rank, dtype, sizes and everything else but the elements: t_ keeps the rank.
bool mayChangeForm(const torch::jit::Node *writer);

/// The inputs that the operator writes although its schema does not say so: the running statistics
/// of normalisations in training.
std::pair<size_t, size_t> hiddenWrites(const torch::jit::Node *node);

} // namespace pipec

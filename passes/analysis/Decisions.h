// What decides which block of control flow runs.
#pragma once

#include "ir/Model.h"

#include <string>

namespace torch::jit {
struct Node;
}

namespace pipec {

/// "argument flag", or "arguments mode and k": the only values besides constants that decide which
/// blocks of a branch or loop run, or how often. These arguments hold no tensors, or count only by
/// whether they are None. Otherwise "data".
std::string decidedBy(const Model &model, const torch::jit::Node *node);

} // namespace pipec

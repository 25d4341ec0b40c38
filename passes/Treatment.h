// How operators treat the tensors that they are given.
#pragma once

namespace torch::jit {
struct Node;
} // namespace torch::jit

namespace pipec {

enum class Treatment {
  Nothing,  // it makes none and changes none: sizes, numbers
  HandsOn,  // containers, control flow, and changes of a tensor's form
  Computes, // its results have a graph if its arguments have one
};

Treatment treatmentOf(const torch::jit::Node *node);

} // namespace pipec

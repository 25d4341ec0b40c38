// The names under which operators stand in questions to types (ir/TypeAnswers.h).
#pragma once

#include "ir/TypeAnswers.h"

#include <map>

namespace torch::jit {
struct Graph;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The names for one run of a pass, which may change the graph meanwhile.
class OperatorNames {
public:
  explicit OperatorNames(const torch::jit::Graph &graph) : graph_(graph) {}

  /// About the tensor that the operator writes or views.
  TypeQuestion question(torch::jit::Node *node, const std::string &property);
  /// About a result, or an argument of a block inside.
  TypeQuestion question(const torch::jit::Value *value, const std::string &property);

private:
  size_t copyOf(const torch::jit::Node *node);
  void findCopies();

  const torch::jit::Graph &graph_;
  bool found_ = false;
  std::map<size_t, size_t> copies_; // but first ones, by number of the first result
};

} // namespace pipec

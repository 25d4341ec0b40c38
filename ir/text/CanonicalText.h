// Canonical lines of a flat graph. Two graphs that do the same in the same order have the same
// lines, whatever the names of their values and the places of their constants. Digests and the
// validator's comparison use these lines; no code parses them.
#pragma once

#include "ir/Model.h"
#include "ir/text/ContentText.h"
#include "llvm/ADT/ArrayRef.h"

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Writes one node at a time, so that the stages of a graph can be written as one graph.
class CanonicalWriter {
public:
  CanonicalWriter();
  ~CanonicalWriter();
  /// Names a value that comes from outside: a user input, an attribute.
  void name(torch::jit::Value *value, std::string text);
  /// The name of a value. A constant is named by type and content, a value that was never written
  /// "%undefined".
  std::string nameOf(torch::jit::Value *value);
  /// Writes one line for the node and one per line of its blocks. Results are numbered in order.
  /// Results of branches and loops are sorted independently of their uses. Constants and arithmetic
  /// on whole numbers write no line: their values are named by content, so the place and number of
  /// their computations do not matter.
  void write(torch::jit::Node *node);
  void line(std::string text);
  const std::vector<std::string> &lines() const;
  /// The node that wrote a line, or null.
  torch::jit::Node *nodeOf(size_t line) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Lines of the graph: inputs by argument name, attributes by name (kind constant: by content),
/// results by output leaf and state.
std::vector<std::string> canonicalLines(const Model &model);
/// The names of values of the graph in these lines. A null value has no name.
std::vector<std::string> canonicalNames(const Model &model,
                                        llvm::ArrayRef<torch::jit::Value *> values);
/// Describes the operator of one of these lines for messages, with module and source line; empty
/// for a line of inputs or results.
std::string describeLine(const Model &model, size_t line);

/// "sha256:<hex>" over canonical lines and one line per attribute (name, kind, content) sorted by
/// name.
std::string contentDigest(const std::vector<std::string> &lines,
                          std::vector<std::string> attributeLines);
/// `content` is the attribute's contentText.
std::string attributeLine(const std::string &name, AttributeKind kind, const std::string &content);

} // namespace pipec

// Canonical lines of a flat graph: two graphs that do the same in the same order have the same
// lines, whatever their values are called and wherever their constants stand. Digests and the
// validator's comparison are over these lines; nothing parses them.
#pragma once

#include "ir/Model.h"
#include "ir/text/ContentText.h"
#include "llvm/ADT/ArrayRef.h"

#include <map>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Writes one node at a time, so that a graph that is spread over stages can be written as one.
class CanonicalWriter {
public:
  CanonicalWriter();
  ~CanonicalWriter();
  /// Gives a value a name from outside: a user input, an attribute.
  void name(torch::jit::Value *value, std::string text);
  /// The name of a value; constants by type and content; "%undefined" for a value that was never
  /// written.
  std::string nameOf(torch::jit::Value *value);
  /// One line for the node and one per line of its blocks. Results are numbered in order, those of
  /// branches and loops in an order of their own that does not depend on who uses them. Constants
  /// and arithmetic on whole numbers print nothing: they are named by what they are, so that it
  /// does not matter where and how often they are computed.
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
/// What these lines call values of the graph; a null value has no name.
std::vector<std::string> canonicalNames(const Model &model,
                                        llvm::ArrayRef<torch::jit::Value *> values);
/// The operator of one of these lines as messages name it, with module and source line; empty for
/// a line of inputs or results.
std::string describeLine(const Model &model, size_t line);

/// The operators that canonical lines leave out because they are named by what they are, blocks
/// included: how many of each kind.
std::map<std::string, int64_t> countWholeNumberOps(const Model &model);
void countWholeNumberOps(const torch::jit::Block &block, std::map<std::string, int64_t> &counts);

/// "sha256:<hex>" over canonical lines and one line per attribute (name, kind, content) sorted by
/// name.
std::string contentDigest(const std::vector<std::string> &lines,
                          std::vector<std::string> attributeLines);
/// `content`: its contentText.
std::string attributeLine(const std::string &name, AttributeKind kind, const std::string &content);

} // namespace pipec

// Computes AliasAnalysis: one walk over the graph that unites locations, then one summary of the
// reads and writes of each location.
#pragma once

#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/MemoryGraph.h"

#include <ATen/core/function_schema.h>
#include <c10/util/ArrayRef.h>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

class AliasBuilder {
public:
  explicit AliasBuilder(AliasAnalysis &result) : result_(result) {}
  void build(const Model &model);

private:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Block = torch::jit::Block;
  using Location = MemoryGraph::Location;

  struct Touch {
    Location location;
    int64_t position;
    Node *writer; // nullptr: a read
    bool inBlock;
    bool isLate; // a write into memory made before the top-level node
  };
  struct NamedSet {
    c10::Symbol name;
    Location location;
  };

  // Locations of values
  std::optional<Location> locate(const Value *value) const;
  /// The value's location, created if it has none yet; absent for values without memory.
  std::optional<Location> give(Value *value);
  void giveAll(at::ArrayRef<Value *> values);
  /// Gives the possible contents of an input of this type their own memory, level by level.
  void giveContents(Location location, const c10::Type &type, bool attribute);
  void uniteValues(Value *a, Value *b);
  void read(const Value *value);
  void write(Location location, Node *writer, bool isLate = true);

  // The walk
  void seedInputs(const Model &model);
  void joinState(const Model &model);
  void visitBlock(Block &block, bool topLevel);
  void visit(Node *node);
  bool visitStructural(Node *node);
  void visitIf(Node *node);
  void visitLoop(Node *node);
  void visitConstruct(Node *node);
  void visitExtract(Node *node);
  void visitUnknown(Node *node);
  void noteEffect(Node *node, bool unknown);

  // Operators with a schema
  void visitSchema(Node *node, const c10::FunctionSchema &schema);
  void bindArgument(Node *node, size_t index, const c10::AliasInfo &info,
                    std::vector<NamedSet> &sets);
  void insertInto(Node *node, size_t container, const c10::FunctionSchema &schema);
  void bindResult(Node *node, Value *output, const c10::AliasInfo *info,
                  std::vector<NamedSet> &sets);
  /// The result is made from the contents of the container inputs in a way that the schema does not
  /// show.
  void bindToContents(Node *node, Value *output, bool mayBeInput);
  static void bind(std::vector<NamedSet> &sets, MemoryGraph &memory, c10::Symbol name,
                   Location location);

  // The sum
  void collect();
  void sumTouches();
  void markReturned(at::ArrayRef<Value *> outputs);

  AliasAnalysis &result_;
  MemoryGraph memory_;
  llvm::DenseMap<const Value *, Location> locations_;
  std::vector<Value *> order_;     // values with a location, in order of definition
  std::vector<int64_t> definedAt_; // of order_
  std::vector<Touch> touches_;
  std::vector<Location> attributes_, userInputs_;
  std::vector<size_t> numbers_; // dense number of each root
  int64_t position_ = -1;
  size_t depth_ = 0;
};

} // namespace pipec

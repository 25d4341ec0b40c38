// Which values of a model may share memory, where that memory is written, and where a cut would
// separate a write from its readers.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <vector>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The alias analysis of one flat model. LibTorch's own marks every weight as written after one
/// `add_`; this one knows from the attribute table which weights share storage, takes each user
/// input for memory of its own, and is linear.
///
/// Positions: the index of a node among the top-level nodes of the graph; what happens inside a
/// block happens at the position of the top-level node around it. Ints, floats, strings, None and
/// devices have no memory. A list's own memory (written by append) and the memory of its elements
/// are different memories.
///
/// Valid while the graph does not change. Read-only, no state outside.
class AliasAnalysis {
public:
  /// A set of values that may share memory.
  struct Memory {
    std::vector<torch::jit::Value *> values; // in order of definition
    std::vector<torch::jit::Node *> writers; // in program order
    std::vector<size_t>
        holds; // memories that it may hold (of a list, tuple, dict or object), ascending
    bool attribute = false; // an attribute, or a constant with mutable content
    bool userInput = false;
    bool returned = false; // reachable from an output of the graph
    bool writtenInBlock = false;
    int64_t defined = -1;                    // position of the first definition; -1: a graph input
    int64_t firstTouch = -1, lastTouch = -1; // -1: never; reading a container touches what it holds
    int64_t firstWrite = -1, lastWrite = -1; // -1: never
    int64_t lastLateWrite = -1; // the last one into what an earlier node at top level has made, or
                                // was there before; -1: never
    bool written() const { return firstWrite >= 0; }
    /// Somebody outside of this run of the graph sees it.
    bool visible() const { return attribute || userInput || returned; }
  };

  /// A cut before the top-level node at position c, from < c <= to, would separate a write from its
  /// aliases.
  struct Interval {
    int64_t from;
    int64_t to;
    size_t memory;
  };

  /// Something at this position reads or writes a memory, or a container that may hold it.
  struct Touch {
    size_t memory;
    int64_t position;
    bool writes;
  };

  /// A node whose effects the schema does not tell, at its position. `unknown`: it may write
  /// whatever it is given.
  struct Effect {
    torch::jit::Node *node;
    int64_t position;
    bool unknown;
  };

  explicit AliasAnalysis(const Model &model);

  /// Numbered by first definition.
  llvm::ArrayRef<Memory> memories() const { return memories_; }
  /// Absent for values without memory.
  std::optional<size_t> memoryOf(const torch::jit::Value *value) const;
  bool mayAlias(const torch::jit::Value *a, const torch::jit::Value *b) const;
  /// The value's memory is written somewhere. False for values without memory.
  bool isWritten(const torch::jit::Value *value) const;
  /// Memory of the value, or of anything that it holds at any depth, is written after the node at
  /// top level that has made it.
  bool isWrittenInside(const torch::jit::Value *value) const;
  /// The memories that `node` writes, ascending.
  llvm::ArrayRef<size_t> writesOf(const torch::jit::Node *node) const;
  /// In program order; nodes inside blocks included.
  llvm::ArrayRef<Effect> effects() const { return effects_; }

  /// One per memory that must not be cut apart, ascending by memory: from its definition
  /// (attributes and user inputs: first touch) to its last write (attributes and user inputs: last
  /// touch). A later stage may well read the final value of other memory.
  std::vector<Interval> intervals() const;

  /// Of every memory that intervals() may tell of: all its touches, ascending by memory, then
  /// position. What keeps the order of each write among them keeps what every reader finds.
  std::vector<Touch> touchesOfWritten() const;

  /// One line per memory that is written or shared, then intervals and effects.
  void print(llvm::raw_ostream &os) const;

private:
  friend class AliasBuilder;
  std::vector<Memory> memories_;
  std::vector<Effect> effects_;
  std::vector<Touch> touches_;                                      // in order of position
  llvm::DenseMap<const torch::jit::Value *, size_t> memoryOfValue_; // looked up only, never walked
  llvm::DenseMap<const torch::jit::Node *, std::vector<size_t>> writes_;
};

} // namespace pipec

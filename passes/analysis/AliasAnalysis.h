// Which values of a model may share memory, where that memory is written, and where a cut would
// separate a write from its readers.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <optional>
#include <vector>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

struct PassContext;

/// The alias analysis of one flat model. LibTorch's own analysis marks every weight as written
/// after one `add_`. This one takes from the attribute table which weights share storage, treats
/// each user input as separate memory, and runs in linear time.
///
/// Positions: the index of a node among the top-level nodes of the graph. A node inside a block has
/// the position of the top-level node around it. Ints, floats, strings, None and devices have no
/// memory. A list has two kinds of memory: its own, which append writes, and that of its elements.
///
/// Valid while the graph does not change. Read-only; keeps no state outside.
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
    int64_t firstTouch = -1, lastTouch = -1; // -1: never; reading a container touches its content
    int64_t firstWrite = -1, lastWrite = -1; // -1: never
    int64_t lastLateWrite = -1; // the last write into memory that an earlier top-level node made or
                                // that existed before; -1: never
    bool written() const { return firstWrite >= 0; }
    /// Code outside this run of the graph can see it.
    bool visible() const { return attribute || userInput || returned; }
  };

  /// A cut before the top-level node at position c, from < c <= to, would separate a write from the
  /// aliases of its memory.
  struct Interval {
    int64_t from;
    int64_t to;
    size_t memory;
  };

  /// A node at this position reads or writes a memory, or a container that may hold it.
  struct Touch {
    size_t memory;
    int64_t position;
    bool writes;
  };

  /// A node with effects that its schema does not show, at its position. `unknown`: it may write
  /// all of its arguments.
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
  /// Whether any node writes the value's memory. False for values without memory.
  bool isWritten(const torch::jit::Value *value) const;
  /// Whether the memory of the value, or of anything that it holds at any depth, is written after
  /// the top-level node that made it.
  bool isWrittenInside(const torch::jit::Value *value) const;
  /// The memories that `node` writes, ascending.
  llvm::ArrayRef<size_t> writesOf(const torch::jit::Node *node) const;
  /// In program order; nodes inside blocks included.
  llvm::ArrayRef<Effect> effects() const { return effects_; }

  /// One interval per memory that a cut must not separate, ascending by memory. It goes from the
  /// definition (attributes and user inputs: first touch) to the last write (attributes and user
  /// inputs: last touch). A later stage may read the final value of other memory.
  std::vector<Interval> intervals() const;

  /// All touches of every memory that intervals() may list, ascending by memory, then position. A
  /// reordering that keeps the order of each write among them keeps the values of all reads.
  std::vector<Touch> touchesOfWritten() const;

  /// One line per memory that is written or shared, then intervals and effects.
  void print(llvm::raw_ostream &os) const;

private:
  friend class AliasBuilder;
  std::vector<Memory> memories_;
  std::vector<Effect> effects_;
  std::vector<Touch> touches_;                                      // in order of position
  llvm::DenseMap<const torch::jit::Value *, size_t> memoryOfValue_; // look-ups only, never iterated
  llvm::DenseMap<const torch::jit::Node *, std::vector<size_t>> writes_;
};

/// The analysis for a pass that has not changed the model yet. Under a manager it is that of an
/// earlier pass, if no pass has changed the model since.
std::shared_ptr<const AliasAnalysis> aliasesOf(const Model &model, const PassContext &context);

} // namespace pipec

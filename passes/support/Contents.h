// The known contents of a list or dict at some place of the program: its elements in order; for a
// dict with their constant keys.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/jit_type_base.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

bool isListOrDict(const c10::Type &type);
bool isIntList(const c10::Type &type);
c10::TypePtr withoutNone(const c10::TypePtr &type);

/// A plain change of a list or dict whose effect is known at compile time.
enum class Change { None, Append, Insert, Extend, Set, Pop, Delete, Clear, Reverse, SetDefault };
Change changeOf(const torch::jit::Node *node);
/// Whether the change returns an element, not the container.
bool givesElement(Change change);

class Contents {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// The contents right after a ListConstruct, a DictConstruct or dict().
  static std::optional<Contents> of(Node *made);

  size_t size() const { return items_.size(); }
  /// The element that the last change returned.
  Value *given() const { return given_; }

  /// Applies the change. Returns false if its effect is unknown or it raises.
  bool apply(Node *change);

  /// Keeps the list elements from `begin` to before `end` in steps, as Python slices. Returns false
  /// for a dict.
  bool slice(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step);

  bool extend(Node *by);

  /// Whether both have the same number of elements, and the same keys in the same order.
  bool fits(const Contents &other) const;

  /// Merges the contents after control flow. `join` returns the value for two values that fit.
  void join(const Contents &other, llvm::function_ref<Value *(Value *, Value *)> join);

  llvm::ArrayRef<Value *> keys() const { return keys_; }

  Node *build(torch::jit::Graph &graph) const;

private:
  /// An index from the front or the back; absent unless constant.
  std::optional<int64_t> placeOf(Node *change) const;
  bool isInside(std::optional<int64_t> place) const;
  bool insert(Node *change);
  bool setAt(Node *change);
  /// Takes an element. It must exist; otherwise the change raises or returns a default.
  bool take(Node *change);
  bool setDefault(Node *change);
  /// Sets an element. An existing key keeps its place.
  bool set(Value *key, Value *value);

  bool isDict_ = false;
  std::vector<Value *> keys_, items_;
  std::map<std::string, size_t> places_; // by key
  Value *given_ = nullptr;
};

} // namespace pipec

// What is in a list or dict at some place of the program, where that is known: the elements in
// order, of a dict with their constant keys.
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
c10::TypePtr withoutNone(const c10::TypePtr &type);

/// A plain change of a list or dict whose effect is known at compile time.
enum class Change { None, Append, Insert, Extend, Set, Pop, Delete, Clear, Reverse, SetDefault };
Change changeOf(const torch::jit::Node *node);
/// What it returns is an element, not the container.
bool givesElement(Change change);

class Contents {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// Of what a ListConstruct, a DictConstruct or dict() has just made.
  static std::optional<Contents> of(Node *made);

  size_t size() const { return items_.size(); }
  /// The element that the last change has given.
  Value *given() const { return given_; }

  /// False: not known what it does, or it raises.
  bool apply(Node *change);

  /// A list from `begin` to before `end` in steps, as Python cuts; false for a dict.
  bool slice(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step);

  bool extend(Node *by);

  /// As many elements, and the same keys in the same order.
  bool fits(const Contents &other) const;

  /// After control flow: `join` gives what stands for two values that fit.
  void join(const Contents &other, llvm::function_ref<Value *(Value *, Value *)> join);

  llvm::ArrayRef<Value *> keys() const { return keys_; }

  Node *build(torch::jit::Graph &graph) const;

private:
  /// A place counted from the front or the back; absent unless constant.
  std::optional<int64_t> placeOf(Node *change) const;
  bool isInside(std::optional<int64_t> place) const;
  bool insert(Node *change);
  bool setAt(Node *change);
  /// What is taken must be there: else it raises, or gives a default.
  bool take(Node *change);
  bool setDefault(Node *change);
  /// A key that is there keeps its place.
  bool set(Value *key, Value *value);

  bool isDict_ = false;
  std::vector<Value *> keys_, items_;
  std::map<std::string, size_t> places_; // of keys
  Value *given_ = nullptr;
};

} // namespace pipec

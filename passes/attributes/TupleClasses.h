// The TorchScript classes whose objects become tuples (ObjectValues.h), and types and values with
// these tuples.
#pragma once

#include <ATen/core/jit_type.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// First, note() takes every type of the model, and reject() the classes whose objects have other
/// uses. Then settle() decides which classes become tuples. If other code may see an object when it
/// is assigned to, its class becomes tuples of cells, lists of one element, which are shared as the
/// object was.
class TupleClasses {
public:
  using Block = torch::jit::Block;
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// Finds the classes that a type names. Classes stay if their type is inspected at run time
  /// (Union, Any) or belongs to something else.
  void note(const c10::TypePtr &type);

  /// `why` describes the other use.
  void reject(const c10::TypePtr &type, const std::string &why = "");

  /// Why a class stays: ": aten::sort at model.py:8 in layer1"; empty if the reason is not known.
  std::string reasonToKeep(const c10::TypePtr &type) const;

  /// Code assigns to objects of the class that are visible elsewhere.
  void needCells(const c10::TypePtr &type);

  /// Values of the type come from the model's file, where an object may have several names. Classes
  /// in it that would need cells stay.
  void noteStored(const c10::TypePtr &type);

  /// Whether values of the type may hold any object without naming its class.
  static bool namesAny(const c10::TypePtr &type);

  /// Applies the rule that a class stays if it holds a class that stays.
  void settle();

  bool empty() const { return classes_.empty(); }

  /// Whether the type is such a class itself; a type that only names one is not.
  bool isTuple(const c10::TypePtr &type) const;

  /// Whether the type is such a class whose tuples have cells.
  bool hasCells(const c10::TypePtr &type) const;

  c10::TypePtr tupleType(const c10::TypePtr &type) const;

  /// Converts the value, of the declared type, to the tuple type.
  c10::IValue tupleValue(const c10::IValue &value, const c10::TypePtr &declared) const;

  /// Changes the types of all values, except objects that are read from modules or other objects.
  void retype(Block &block) const;

private:
  std::vector<c10::TypePtr> tupleTypes(at::ArrayRef<c10::TypePtr> types) const;
  /// Whether a type names one of the model's own classes that is no tuple.
  bool namesOther(const c10::TypePtr &type) const;
  /// Whether a type names the class, directly or through others.
  bool reaches(const c10::TypePtr &type, const std::string &name) const;
  bool reaches(const c10::TypePtr &type, const std::string &name,
               std::set<std::string> &seen) const;

  std::map<std::string, c10::ClassTypePtr> classes_; // by name: the same order on every run
  std::map<std::string, std::string> rejected_;      // with the reason
  std::set<std::string> cells_, stored_;
};

} // namespace pipec

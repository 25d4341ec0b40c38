// Classes of TorchScript whose objects become tuples (ObjectValues.h): which they are, and types
// and values with tuples in their place.
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

/// First every type of the model is noted, and those rejected of whose objects more is asked; then
/// settle() says which classes are tuples. To objects of some something is assigned when others may
/// see it: these are tuples of cells, lists of one element, which they share as they shared the
/// object.
class TupleClasses {
public:
  using Block = torch::jit::Block;
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// Finds the classes that a type names. Those in a type that is looked at when the model runs
  /// (Union, Any) or that belongs to something else stay.
  void note(const c10::TypePtr &type);

  /// why: what else is asked, in words.
  void reject(const c10::TypePtr &type, const std::string &why = "");

  /// Why a class stays: ": aten::sort at model.py:8 in layer1"; empty where it is not known.
  std::string whyItStays(const c10::TypePtr &type) const;

  /// Something is assigned to objects of the class that others know.
  void needCells(const c10::TypePtr &type);

  /// Values of the type come from the model's file, where an object may be known by several names:
  /// classes in it that would need cells stay.
  void noteStored(const c10::TypePtr &type);

  /// Whether values of the type may hold any object without naming its class.
  static bool namesAny(const c10::TypePtr &type);

  /// A class that holds one that stays, or itself, stays.
  void settle();

  bool empty() const { return classes_.empty(); }

  /// Whether the type is such a class, and not only names one.
  bool isTuple(const c10::TypePtr &type) const;

  /// Whether the type is such a class whose tuples have cells.
  bool hasCells(const c10::TypePtr &type) const;

  c10::TypePtr tupleType(const c10::TypePtr &type) const;

  /// The value, of the type that is declared, in the tuple type.
  c10::IValue tupleValue(const c10::IValue &value, const c10::TypePtr &declared) const;

  /// Types of all values but objects that are read of modules or of other objects.
  void retype(Block &block) const;

private:
  std::vector<c10::TypePtr> tupleTypes(at::ArrayRef<c10::TypePtr> types) const;
  /// Whether a type names a class of the model's own that is no tuple.
  bool namesOther(const c10::TypePtr &type) const;
  /// Whether a type names the class, through others too.
  bool reaches(const c10::TypePtr &type, const std::string &name) const;
  bool reaches(const c10::TypePtr &type, const std::string &name,
               std::set<std::string> &seen) const;

  std::map<std::string, c10::ClassTypePtr> classes_; // by name: the same order on every run
  std::map<std::string, std::string> rejected_;      // and why
  std::set<std::string> cells_, stored_;
};

} // namespace pipec

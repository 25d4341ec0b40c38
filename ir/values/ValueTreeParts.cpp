// Building trees of values, and taking them apart by paths.
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/text/TensorText.h"
#include "ir/values/Elements.h"
#include "ir/values/TensorViews.h"
#include "ir/values/ValueTree.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <cstring>

namespace pipec {
namespace {

using Kind = ValueTree::Kind;

Kind kindOf(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor().defined() ? Kind::Tensor : Kind::None;
  if (value.isNone())
    return Kind::None;
  if (value.isBool())
    return Kind::Bool;
  if (value.isInt())
    return Kind::Int;
  if (value.isDouble())
    return Kind::Float;
  if (value.isString())
    return Kind::String;
  if (value.isList())
    return Kind::List;
  if (value.isTuple())
    return Kind::Tuple;
  return value.isGenericDict() ? Kind::Dict : Kind::Other;
}

/// A key of a dict as a part of a path; empty for what has no short text.
std::string keyText(const c10::IValue &key) {
  if (key.isString())
    return key.toStringRef();
  if (key.isInt())
    return std::to_string(key.toInt());
  if (key.isBool())
    return key.toBool() ? "True" : "False";
  return key.isDouble() ? fmt::format("{}", key.toDouble()) : "";
}

/// The parts of a list, tuple or dict with their names; none of anything else.
std::vector<std::pair<std::string, c10::IValue>> partsOf(const c10::IValue &value) {
  std::vector<std::pair<std::string, c10::IValue>> parts;
  if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict())
      parts.emplace_back(keyText(entry.key()), entry.value());
    return parts;
  }
  std::vector<c10::IValue> elements = elementsIn(value);
  for (size_t i = 0; i < elements.size(); ++i)
    parts.emplace_back(std::to_string(i), std::move(elements[i]));
  return parts;
}

/// Describes a value for messages: "int 5", "tensor float32[2, 3]", "list of 3", "dict of a, b".
std::string describeValue(const c10::IValue &value) {
  switch (kindOf(value)) {
  case Kind::None:
    return "None";
  case Kind::Bool:
    return value.toBool() ? "bool True" : "bool False";
  case Kind::Int:
    return fmt::format("int {}", value.toInt());
  case Kind::Float:
    return fmt::format("float {}", value.toDouble());
  case Kind::String:
    return "string \"" + value.toStringRef().substr(0, 40) + "\"";
  case Kind::Tensor:
    return "tensor " + tensorHeadText(value.toTensor());
  case Kind::List:
    return fmt::format("list of {}", value.toListRef().size());
  case Kind::Tuple:
    return fmt::format("tuple of {}", value.toTupleRef().elements().size());
  case Kind::Dict: {
    constexpr size_t kMost = 8;
    std::vector<std::string> keys;
    for (auto &[key, part] : partsOf(value))
      keys.push_back(key);
    if (keys.size() > kMost)
      return fmt::format("dict of {} entries", keys.size());
    return keys.empty() ? "empty dict" : "dict of " + llvm::join(keys, ", ");
  }
  case Kind::Other:
    return value.tagKind();
  }
  llvm_unreachable("covered switch");
}

std::string nameOf(llvm::StringRef path) { return path.empty() ? "value" : path.str(); }

/// If several keys begin the path, such as "a" and "a.b", the longer comes first.
std::optional<c10::IValue> findPart(const c10::IValue &value, llvm::StringRef path) {
  if (path.empty())
    return value;
  std::vector<std::pair<std::string, c10::IValue>> parts = partsOf(value);
  llvm::stable_sort(parts, [](auto &a, auto &b) { return a.first.size() > b.first.size(); });
  for (const auto &[name, part] : parts) {
    llvm::StringRef rest = path;
    if (!rest.consume_front(name) || (!rest.empty() && !rest.consume_front(".")))
      continue;
    if (std::optional<c10::IValue> found = findPart(part, rest))
      return found;
  }
  return std::nullopt;
}

/// Names the missing part: the longest existing beginning of the path shows it.
llvm::Error noPart(const c10::IValue &value, llvm::StringRef path) {
  llvm::StringRef known = path;
  std::optional<c10::IValue> there;
  while (!there) {
    known = known.contains('.') ? known.rsplit('.').first : llvm::StringRef();
    there = findPart(value, known);
  }
  llvm::StringRef asked = path.drop_front(known.empty() ? 0 : known.size() + 1).split('.').first;
  std::vector<std::string> names;
  for (auto &[name, part] : partsOf(*there))
    names.push_back(name);
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected a part \"{}\", got {}", nameOf(known), asked.str(),
                               describeValue(*there)),
                   there->isGenericDict() ? didYouMean(asked, names) : "");
}

llvm::Expected<c10::IValue> partOfKind(const c10::IValue &value, llvm::StringRef path,
                                       llvm::ArrayRef<Kind> kinds, const char *asked) {
  std::optional<c10::IValue> part = findPart(value, path);
  if (!part)
    return noPart(value, path);
  if (!llvm::is_contained(kinds, kindOf(*part)))
    return failf(ExitCode::Usage, "{}: expected {}, got {}", nameOf(path), asked,
                 describeValue(*part));
  return *part;
}

void addPaths(const c10::IValue &value, const std::string &path, std::vector<std::string> &paths) {
  auto parts = partsOf(value);
  if (parts.empty())
    paths.push_back(path);
  for (const auto &[name, part] : parts)
    addPaths(part, path.empty() ? name : path + "." + name, paths);
}

std::vector<c10::IValue> valuesOf(llvm::ArrayRef<ValueTree> trees) {
  std::vector<c10::IValue> values;
  for (const ValueTree &tree : trees)
    values.push_back(tree.ivalue());
  return values;
}

} // namespace

ValueTree::ValueTree() : ValueTree(of(c10::IValue())) {}
ValueTree::ValueTree(const std::string &text) : ValueTree(of(c10::IValue(text))) {}
ValueTree ValueTree::ofBool(bool value) { return of(value); }
ValueTree ValueTree::ofInt(int64_t value) { return of(value); }
ValueTree ValueTree::ofFloat(double value) { return of(value); }

ValueTree ValueTree::tuple(llvm::ArrayRef<ValueTree> elements) {
  return of(c10::ivalue::Tuple::create(valuesOf(elements)));
}

ValueTree ValueTree::list(llvm::ArrayRef<ValueTree> elements) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (c10::IValue &value : valuesOf(elements))
    list.push_back(std::move(value));
  return of(list);
}

ValueTree ValueTree::dict(llvm::ArrayRef<std::pair<std::string, ValueTree>> entries) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto &[key, tree] : entries)
    dict.insert_or_assign(key, tree.ivalue());
  return of(dict);
}

Kind ValueTree::kind() const { return kindOf(*value_); }
size_t ValueTree::size() const { return partsOf(*value_).size(); }

llvm::Expected<ValueTree> ValueTree::at(llvm::StringRef path) const {
  if (std::optional<c10::IValue> part = findPart(*value_, path))
    return of(*part);
  return noPart(*value_, path);
}

std::vector<std::string> ValueTree::paths() const {
  std::vector<std::string> paths;
  addPaths(*value_, "", paths);
  return paths;
}

llvm::Expected<bool> ValueTree::boolAt(llvm::StringRef path) const {
  c10::IValue part = TRY(partOfKind(*value_, path, {Kind::Bool}, "a bool"));
  return part.toBool();
}

llvm::Expected<int64_t> ValueTree::intAt(llvm::StringRef path) const {
  c10::IValue part = TRY(partOfKind(*value_, path, {Kind::Int}, "an int"));
  return part.toInt();
}

llvm::Expected<double> ValueTree::floatAt(llvm::StringRef path) const {
  auto part = TRY(partOfKind(*value_, path, {Kind::Int, Kind::Float}, "a float"));
  return part.isInt() ? static_cast<double>(part.toInt()) : part.toDouble();
}

llvm::Expected<std::string> ValueTree::stringAt(llvm::StringRef path) const {
  c10::IValue part = TRY(partOfKind(*value_, path, {Kind::String}, "a string"));
  return part.toStringRef();
}

llvm::Expected<TensorView> ValueTree::tensorAt(llvm::StringRef path) const {
  c10::IValue part = TRY(partOfKind(*value_, path, {Kind::Tensor}, "a tensor"));
  const at::Tensor &tensor = part.toTensor();
  llvm::Expected<std::string> dtype = viewableDtype(tensor);
  if (!dtype)
    return withContext(dtype.takeError(), nameOf(path));
  return TensorView{*dtype, tensor.sizes().vec(), nullptr,
                    static_cast<size_t>(tensor.numel()) * tensor.element_size()};
}

llvm::Expected<TensorView> ValueTree::tensorOfDtype(llvm::StringRef path,
                                                    llvm::StringRef dtype) const {
  llvm::Expected<TensorView> view = tensorAt(path);
  if (!view || view->dtype == dtype || (dtype == "uint8" && view->dtype == "bool"))
    return view;
  return failf(ExitCode::Usage, "{}: expected a tensor of {}, got {}", nameOf(path), dtype.str(),
               view->dtype);
}

llvm::Error ValueTree::copyTensor(llvm::StringRef path, void *to, size_t bytes) const {
  TensorView view = TRY(tensorAt(path));
  if (view.bytes != bytes)
    return failf(ExitCode::Usage, "{}: expected memory of {} bytes for {}, got {}", nameOf(path),
                 view.bytes, describeValue(*findPart(*value_, path)), bytes);
  llvm::Expected<at::Tensor> plain = plainTensor(findPart(*value_, path)->toTensor());
  if (!plain)
    return withContext(plain.takeError(), nameOf(path));
  if (bytes > 0)
    std::memcpy(to, plain->const_data_ptr(), bytes);
  return llvm::Error::success();
}

} // namespace pipec

#include "tests/runtime/PlanEdits.h"

#include "ir/support/Json.h"
#include "ir/support/Llvm.h"

#include <fmt/format.h>

#include <functional>

namespace pipec {

namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

std::string text(const Value &value) {
  std::string result;
  llvm::raw_string_ostream(result) << value;
  return result;
}

/// Words of plan.json that can stand for one another.
const std::vector<std::vector<std::string>> kAlike = {
    {"parameter", "buffer", "constant", "value", "object"},
    {"concat", "same", "list", "mean"},
    {"activation", "weight"},
    {"transmit", "replicate"},
    {"infer", "train"},
    {"Tensor", "int", "Optional[Tensor]", "List[Tensor]"},
    {"float32", "int32", "int64", "float64", "bool"}};

/// Object::erase of LLVM 14 leaves an object that cannot be copied.
Object without(const Object &object, llvm::StringRef key) {
  Object rest;
  for (const auto &[name, value] : object)
    if (llvm::StringRef(name) != key)
      rest[name] = value;
  return rest;
}

std::vector<Value> otherValues(const Value &value) {
  std::vector<Value> others;
  if (auto number = value.getAsInteger())
    for (int64_t other :
         {*number + 1, *number > 0 ? int64_t(0) : int64_t(-1), std::numeric_limits<int64_t>::max()})
      others.push_back(other);
  if (auto flag = value.getAsBoolean())
    others.push_back(!*flag);
  if (auto word = value.getAsString()) {
    others.push_back((*word + "x").str());
    for (const auto &group : kAlike)
      if (std::find(group.begin(), group.end(), *word) != group.end())
        for (const std::string &other : group)
          others.push_back(other);
    if (startsWith(*word, "sha256:"))
      others.push_back("sha256:" + std::string(64, '0'));
    if (word->contains('B'))
      others.insert(others.end(), {"2*B", "B+1", "?", 4});
  }
  if (value.getAsNull())
    others.insert(others.end(), {0, 1});
  else
    others.push_back(nullptr);
  others.push_back(value.getAsString() ? Value(7) : Value("text"));
  return others;
}

class Editor {
public:
  explicit Editor(const Value &document) : document_(document), original_(text(document)) {}

  std::vector<JsonEdit> run() {
    visit(document_, "");
    return std::move(edits_);
  }

private:
  /// Applies `change` to the value at `path_` of a copy.
  void add(const std::string &path, const std::string &what,
           const std::function<void(Value &)> &change) {
    Value copy = document_;
    Value *place = &copy;
    for (const Step &step : path_)
      place = step.key.empty() ? &(*place->getAsArray())[step.index]
                               : place->getAsObject()->get(step.key);
    change(*place);
    if (text(copy) != original_)
      edits_.push_back({path, what, printJson(copy)});
  }

  void visit(const Value &value, const std::string &path) {
    if (const Object *object = value.getAsObject())
      return visitObject(*object, path);
    if (const Array *array = value.getAsArray())
      return visitArray(*array, path);
    for (const Value &other : otherValues(value))
      if (!(other == value))
        add(path, "changed to " + text(other), [&](Value &place) { place = other; });
  }

  void visitObject(const Object &object, const std::string &path) {
    for (const auto &[key, value] : object) {
      std::string name = key.str(), below = path.empty() ? name : path + "." + name;
      add(below, "left out", [&](Value &place) { place = without(*place.getAsObject(), name); });
      path_.push_back({name, 0});
      visit(value, below);
      path_.pop_back();
    }
  }

  void visitArray(const Array &array, const std::string &path) {
    add(path, "emptied", [](Value &place) { place = Array(); });
    for (size_t i = 0; i < array.size(); ++i) {
      std::string here = fmt::format("{}[{}]", path, i);
      add(here, "left out", [&](Value &place) {
        Array rest;
        for (size_t j = 0; j < place.getAsArray()->size(); ++j)
          if (j != i)
            rest.push_back((*place.getAsArray())[j]);
        place = std::move(rest);
      });
      add(here, "doubled", [&](Value &place) {
        Value same = (*place.getAsArray())[i];
        place.getAsArray()->insert(place.getAsArray()->begin() + i, std::move(same));
      });
      if (i + 1 < array.size())
        visitNeighbours(array, i, here);
      path_.push_back({"", i});
      visit(array[i], here);
      path_.pop_back();
    }
  }

  void visitNeighbours(const Array &array, size_t i, const std::string &here) {
    add(here, "swapped with the next",
        [&](Value &place) { std::swap((*place.getAsArray())[i], (*place.getAsArray())[i + 1]); });
    const Object *first = array[i].getAsObject(), *second = array[i + 1].getAsObject();
    if (!first || !second)
      return;
    for (const auto &[key, value] : *first)
      if (std::string name = key.str(); second->get(name))
        add(here + "." + name, "swapped with the next one's", [&](Value &place) {
          Array &both = *place.getAsArray();
          std::swap(*both[i].getAsObject()->get(name), *both[i + 1].getAsObject()->get(name));
        });
  }

  struct Step {
    std::string key; // empty: an element
    size_t index;
  };
  const Value &document_;
  const std::string original_;
  std::vector<Step> path_;
  std::vector<JsonEdit> edits_;
};

} // namespace

std::vector<JsonEdit> everyEdit(const Value &document) { return Editor(document).run(); }

} // namespace pipec

#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

std::optional<std::string> keyName(Value *key) {
  std::optional<c10::IValue> known = torch::jit::toIValue(key);
  if (!known || !(known->isString() || known->isInt()))
    return std::nullopt;
  return known->isString() ? "s" + known->toStringRef() : std::to_string(known->toInt());
}

} // namespace

bool isListOrDict(const c10::Type &type) {
  return type.kind() == c10::TypeKind::ListType || type.kind() == c10::TypeKind::DictType;
}

bool isIntList(const c10::Type &type) {
  return type.kind() == c10::TypeKind::ListType &&
         type.containedTypes()[0]->kind() == c10::TypeKind::IntType;
}

c10::TypePtr withoutNone(const c10::TypePtr &type) {
  auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

Change changeOf(const torch::jit::Node *node) {
  static const std::map<c10::Symbol, Change> changes = {
      {c10::aten::append, Change::Append},
      {c10::aten::insert, Change::Insert},
      {c10::aten::add_, Change::Extend},
      {c10::aten::_set_item, Change::Set},
      {c10::aten::pop, Change::Pop},
      {c10::Symbol::aten("extend"), Change::Extend},
      {c10::Symbol::aten("update"), Change::Extend},
      {c10::Symbol::aten("Delete"), Change::Delete},
      {c10::Symbol::aten("clear"), Change::Clear},
      {c10::Symbol::aten("reverse"), Change::Reverse},
      {c10::Symbol::aten("setdefault"), Change::SetDefault}};
  auto found = changes.find(node->kind());
  return found == changes.end() ? Change::None : found->second;
}

bool givesElement(Change change) { return change == Change::Pop || change == Change::SetDefault; }

std::optional<Contents> Contents::of(Node *made) {
  Contents contents;
  contents.isDict_ = made->kind() != c10::prim::ListConstruct;
  if (!contents.isDict_)
    contents.items_ = made->inputs().vec();
  for (size_t i = 0; contents.isDict_ && i + 1 < made->inputs().size(); i += 2)
    if (!contents.set(made->inputs()[i], made->inputs()[i + 1]))
      return std::nullopt;
  return contents;
}

bool Contents::apply(Node *change) {
  switch (changeOf(change)) {
  case Change::Append:
    items_.push_back(change->inputs()[1]);
    return !isDict_;
  case Change::Insert:
    return !isDict_ && insert(change);
  case Change::Extend:
    return extend(change->inputs()[1]->node());
  case Change::Set:
    return isDict_ ? set(change->inputs()[1], change->inputs()[2]) : setAt(change);
  case Change::Pop:
  case Change::Delete:
    return take(change);
  case Change::Clear:
    keys_.clear();
    items_.clear();
    places_.clear();
    return true;
  case Change::Reverse:
    std::reverse(items_.begin(), items_.end());
    return !isDict_;
  case Change::SetDefault:
    return isDict_ && setDefault(change);
  case Change::None:
    break;
  }
  return false;
}

bool Contents::slice(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t step) {
  const auto count = static_cast<int64_t>(size());
  auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    return std::clamp<int64_t>(!at ? otherwise : *at < 0 ? *at + count : *at, 0, count);
  };
  if (isDict_ || step < 1)
    return false;
  std::vector<Value *> part;
  for (int64_t i = place(begin, 0); i < place(end, count); i += step)
    part.push_back(items_[i]);
  items_ = std::move(part);
  return true;
}

bool Contents::extend(Node *by) {
  std::optional<Contents> other = of(by);
  if (!other || other->isDict_ != isDict_)
    return false;
  for (size_t i = 0; i < other->size(); ++i)
    if (!isDict_)
      items_.push_back(other->items_[i]);
    else if (!set(other->keys_[i], other->items_[i]))
      return false;
  return true;
}

bool Contents::fits(const Contents &other) const {
  return isDict_ == other.isDict_ && size() == other.size() && places_ == other.places_;
}

void Contents::join(const Contents &other, llvm::function_ref<Value *(Value *, Value *)> join) {
  for (size_t i = 0; i < size(); ++i)
    if (items_[i] != other.items_[i])
      items_[i] = join(items_[i], other.items_[i]);
}

Node *Contents::build(torch::jit::Graph &graph) const {
  std::vector<Value *> inputs;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (isDict_)
      inputs.push_back(keys_[i]);
    inputs.push_back(items_[i]);
  }
  return graph.create(isDict_ ? c10::prim::DictConstruct : c10::prim::ListConstruct, inputs);
}

std::optional<int64_t> Contents::placeOf(Node *change) const {
  std::optional<c10::IValue> index = torch::jit::toIValue(change->inputs()[1]);
  if (!index || !index->isInt())
    return std::nullopt;
  return index->toInt() < 0 ? index->toInt() + int64_t(size()) : index->toInt();
}

bool Contents::isInside(std::optional<int64_t> place) const {
  return place && *place >= 0 && *place < int64_t(size());
}

bool Contents::insert(Node *change) {
  std::optional<int64_t> place = placeOf(change);
  if (place)
    items_.insert(items_.begin() + std::clamp<int64_t>(*place, 0, size()), change->inputs()[2]);
  return place.has_value();
}

bool Contents::setAt(Node *change) {
  std::optional<int64_t> place = placeOf(change);
  if (isInside(place))
    items_[*place] = change->inputs()[2];
  return isInside(place);
}

bool Contents::take(Node *change) {
  std::optional<int64_t> place = placeOf(change);
  if (isDict_) {
    std::optional<std::string> name = keyName(change->inputs()[1]);
    auto found = name ? places_.find(*name) : places_.end();
    place = found == places_.end() ? std::nullopt : std::optional<int64_t>(found->second);
  }
  if (!isInside(place))
    return false;
  given_ = items_[*place];
  items_.erase(items_.begin() + *place);
  if (!isDict_)
    return true;
  keys_.erase(keys_.begin() + *place);
  places_.clear();
  for (size_t i = 0; i < keys_.size(); ++i)
    places_[*keyName(keys_[i])] = i;
  return true;
}

bool Contents::setDefault(Node *change) {
  std::optional<std::string> name = keyName(change->inputs()[1]);
  if (!name)
    return false;
  auto found = places_.find(*name);
  given_ = found == places_.end() ? change->inputs()[2] : items_[found->second];
  return found != places_.end() || set(change->inputs()[1], change->inputs()[2]);
}

bool Contents::set(Value *key, Value *value) {
  std::optional<std::string> name = keyName(key);
  if (!name)
    return false;
  auto [found, isNew] = places_.try_emplace(*name, items_.size());
  if (!isNew) {
    items_[found->second] = value;
    return true;
  }
  keys_.push_back(key);
  items_.push_back(value);
  return true;
}

} // namespace pipec

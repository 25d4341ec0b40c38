// fix-lists: a list or dict that is changed in straight code only, at known places, is built at
// once with all its elements, and what is popped is the element. So a U-Net's list of skips is
// gone, and the dict of features by name that a backbone fills.
//
//   %l = ListConstruct(%a)
//   append(%l, %b)             =>   %m = ListConstruct(%a, %b)
//   %c = cat(%l, 0)                 %c = cat(%m, 0)
//   %d = pop(%l, -1)                                            (%d is %b)
#include "llvm/ADT/STLExtras.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

constexpr size_t kMostElements = 100000; // in all lists that replace one

/// A plain change of a list or dict whose effect is known at compile time.
enum class Change { None, Append, Insert, Extend, Set, Pop };

Change changeOf(const Node *node) {
  static const c10::Symbol extend = c10::Symbol::aten("extend");
  if (node->kind() == c10::aten::append)
    return Change::Append;
  if (node->kind() == c10::aten::insert)
    return Change::Insert;
  if (node->kind() == extend || node->kind() == c10::aten::add_)
    return Change::Extend;
  if (node->kind() == c10::aten::_set_item)
    return Change::Set;
  return node->kind() == c10::aten::pop && node->inputs().size() == 2 ? Change::Pop : Change::None;
}

/// The elements of a list, or the values of a dict with their constant keys, in order.
class Content {
public:
  static std::optional<Content> of(Node *made) {
    Content content;
    content.isDict_ = made->kind() != c10::prim::ListConstruct;
    if (!content.isDict_)
      content.items_ = made->inputs().vec();
    for (size_t i = 0; content.isDict_ && i + 1 < made->inputs().size(); i += 2)
      if (!content.set(made->inputs()[i], made->inputs()[i + 1]))
        return std::nullopt;
    return content;
  }

  size_t size() const { return items_.size(); }
  Value *popped() const { return popped_; }

  /// False: not known what it does, or it raises.
  bool apply(Node *change) {
    switch (changeOf(change)) {
    case Change::Append:
      items_.push_back(change->inputs()[1]);
      return !isDict_;
    case Change::Insert:
      return !isDict_ && insert(change);
    case Change::Extend:
      for (Value *item : change->inputs()[1]->node()->inputs())
        items_.push_back(item);
      return !isDict_;
    case Change::Set:
      return isDict_ ? set(change->inputs()[1], change->inputs()[2]) : setAt(change);
    case Change::Pop:
      return !isDict_ && pop(change);
    case Change::None:
      break;
    }
    return false;
  }

  Node *build(torch::jit::Graph &graph) const {
    std::vector<Value *> inputs;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (isDict_)
        inputs.push_back(keys_[i]);
      inputs.push_back(items_[i]);
    }
    return graph.create(isDict_ ? c10::prim::DictConstruct : c10::prim::ListConstruct, inputs);
  }

private:
  /// A place counted from the front or the back; absent unless constant.
  std::optional<int64_t> placeOf(Node *change) const {
    std::optional<c10::IValue> index = torch::jit::toIValue(change->inputs()[1]);
    if (!index || !index->isInt())
      return std::nullopt;
    return index->toInt() < 0 ? index->toInt() + int64_t(size()) : index->toInt();
  }

  bool isInside(std::optional<int64_t> place) const {
    return place && *place >= 0 && *place < int64_t(size());
  }

  bool insert(Node *change) {
    std::optional<int64_t> place = placeOf(change);
    if (place)
      items_.insert(items_.begin() + std::clamp<int64_t>(*place, 0, size()), change->inputs()[2]);
    return place.has_value();
  }

  bool setAt(Node *change) {
    std::optional<int64_t> place = placeOf(change);
    if (isInside(place))
      items_[*place] = change->inputs()[2];
    return isInside(place);
  }

  bool pop(Node *change) {
    std::optional<int64_t> place = placeOf(change);
    if (!isInside(place))
      return false;
    popped_ = items_[*place];
    items_.erase(items_.begin() + *place);
    return true;
  }

  /// A key that is there keeps its place.
  bool set(Value *key, Value *value) {
    std::optional<c10::IValue> known = torch::jit::toIValue(key);
    if (!known || !(known->isString() || known->isInt()))
      return false;
    const std::string name =
        known->isString() ? "s" + known->toStringRef() : std::to_string(known->toInt());
    auto [found, isNew] = places_.try_emplace(name, items_.size());
    if (!isNew) {
      items_[found->second] = value;
      return true;
    }
    keys_.push_back(key);
    items_.push_back(value);
    return true;
  }

  bool isDict_ = false;
  std::vector<Value *> keys_, items_;
  std::map<std::string, size_t> places_; // of keys
  Value *popped_ = nullptr;
};

class FixLists : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model) override {
    graph_ = model.graph.get();
    AliasAnalysis alias(model);
    alias_ = &alias;
    changed_ = false;
    isHeld_.assign(alias.memories().size(), false);
    for (const AliasAnalysis::Memory &memory : alias.memories()) {
      for (size_t held : memory.holds)
        isHeld_[held] = true;
    }
    std::vector<Node *> containers;
    collect(graph_->block(), containers);
    for (Node *made : containers)
      fix(made);
    return changed_;
  }

private:
  /// Something that happens to the container in its own block: a change, or a node that reads it
  /// there or further inside.
  struct Event {
    Node *node;
    std::optional<Use> read; // absent: a change
  };

  void collect(Block *block, std::vector<Node *> &containers) {
    for (Node *node : block->nodes()) {
      const bool makes = node->kind() == c10::prim::ListConstruct ||
                         node->kind() == c10::prim::DictConstruct ||
                         (node->kind() == c10::aten::dict && node->inputs().empty());
      if (makes && alias_->isWritten(node->output()))
        containers.push_back(node);
      for (Block *inner : node->blocks())
        collect(inner, containers);
    }
  }

  static Node *enclosing(Node *user, Block *block) {
    while (user->owningBlock() != block)
      user = user->owningBlock()->owningNode();
    return user;
  }

  /// A change of the container and of nothing else, in its own block.
  bool isPlainChange(const Node *node, size_t place, const Block *block) const {
    if (place != 0 || node->owningBlock() != block || changeOf(node) == Change::None)
      return false;
    if (changeOf(node) != Change::Extend)
      return true;
    const Value *other = node->inputs()[1];
    return other->node()->kind() == c10::prim::ListConstruct && !alias_->isWritten(other);
  }

  void fix(Node *made) {
    const size_t number = *alias_->memoryOf(made->output());
    const AliasAnalysis::Memory &memory = alias_->memories()[number];
    if (memory.attribute || memory.userInput)
      return;
    // Its names are what makes it and what changes return; nobody else changes it.
    std::vector<Value *> names = {made->output()};
    std::vector<Event> events;
    size_t changes = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      for (const Use &use : names[i]->uses()) {
        const bool change = isPlainChange(use.user, use.offset, made->owningBlock());
        if (!change && llvm::is_contained(names, use.user->input(0)) &&
            changeOf(use.user) != Change::None)
          return; // it goes into itself
        changes += change;
        events.push_back({enclosing(use.user, made->owningBlock()),
                          change ? std::nullopt : std::optional<Use>(use)});
        if (change && changeOf(use.user) != Change::Pop)
          for (Value *output : use.user->outputs())
            names.push_back(output);
      }
    }
    if (names.size() != memory.values.size() || changes != memory.writers.size())
      return;
    llvm::stable_sort(events, [](const Event &a, const Event &b) {
      return a.node != b.node && a.node->isBefore(b.node);
    });
    std::optional<Content> content = Content::of(made);
    if (content && isWorthIt(events, *content, isHeld_[number]))
      rebuild(made, std::move(*content), events);
  }

  /// Every reading between two changes costs a container of its own; one that keeps it would miss
  /// the later changes. What raises must stay.
  static bool isWorthIt(const std::vector<Event> &events, Content content, bool isHeld) {
    size_t total = 0;
    bool readBefore = false, fresh = false;
    for (const Event &event : events) {
      if (!event.read) {
        if ((isHeld && readBefore) || !content.apply(event.node))
          return false;
        fresh = true;
        continue;
      }
      readBefore = true;
      total += fresh ? content.size() : 0;
      fresh = false;
    }
    return total <= kMostElements;
  }

  void rebuild(Node *container, Content content, const std::vector<Event> &events) {
    Value *current = container->output();
    Node *lastChange = nullptr;
    std::vector<Node *> changes;
    for (const Event &event : events) {
      if (!event.read) {
        content.apply(event.node);
        if (changeOf(event.node) == Change::Pop)
          event.node->output()->replaceAllUsesWith(content.popped());
        changes.push_back(event.node);
        lastChange = event.node;
        continue;
      }
      if (lastChange) {
        Node *made = content.build(*graph_)->insertBefore(lastChange)->copyMetadata(lastChange);
        made->output()->setType(container->output()->type());
        current = made->output();
        lastChange = nullptr;
      }
      event.read->user->replaceInput(event.read->offset, current);
    }
    for (Node *change : llvm::reverse(changes))
      change->destroy();
    changed_ = true;
  }

  torch::jit::Graph *graph_ = nullptr;
  const AliasAnalysis *alias_ = nullptr;
  std::vector<bool> isHeld_; // by memory
  bool changed_ = false;
};

} // namespace

PassInfo fixLists() {
  return {.name = "fix-lists",
          .description = "builds a list or dict that straight code changes at known places at once",
          .requires_ = "a flat graph",
          .guarantees =
              "the container has no other name; each reader sees the elements it saw before",
          .example = R"(
    %2 : Tensor[] = prim::ListConstruct(%0)
    %3 : Tensor[] = aten::append(%2, %1)
    %4 : Tensor = aten::cat(%2, %z)
    =>
    %2 : Tensor[] = prim::ListConstruct(%0, %1)
    %4 : Tensor = aten::cat(%2, %z))",
          .options = "",
          .make = withoutOptions<FixLists>()};
}

} // namespace pipec

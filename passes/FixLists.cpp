// fix-lists: a list that only append and pop change, in straight code, is built at once with all
// its elements, and what is popped is the element. So a U-Net's list of skips is gone.
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

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

constexpr size_t kMostElements = 100000; // in all lists that replace one

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
    std::vector<Node *> lists;
    collect(graph_->block(), lists);
    for (Node *list : lists)
      fix(list);
    return changed_;
  }

private:
  /// Something that happens to the list in its own block: an append, a pop, or a node that reads it
  /// there or further inside.
  struct Event {
    Node *node;
    std::optional<Use> read; // absent: a change
    bool isPop() const { return node->kind() == c10::aten::pop; }
  };

  void collect(Block *block, std::vector<Node *> &lists) {
    for (Node *node : block->nodes()) {
      if (node->kind() == c10::prim::ListConstruct && alias_->isWritten(node->output()))
        lists.push_back(node);
      for (Block *inner : node->blocks())
        collect(inner, lists);
    }
  }

  static Node *enclosing(Node *user, Block *block) {
    while (user->owningBlock() != block)
      user = user->owningBlock()->owningNode();
    return user;
  }

  /// An append in the list's own block whose result nobody wants.
  static bool isPlainAppend(const Node *node, const Value *list) {
    return node->kind() == c10::aten::append && node->input(0) == list && node->input(1) != list &&
           node->owningBlock() == list->node()->owningBlock() && !node->hasUses();
  }

  /// A pop in the list's own block, of an element that is known by its place.
  static bool isPlainPop(const Node *node, const Value *list) {
    return node->kind() == c10::aten::pop && node->input(0) == list &&
           node->owningBlock() == list->node()->owningBlock() &&
           node->input(1)->node()->kind() == c10::prim::Constant;
  }

  static bool isPlainChange(const Node *node, const Value *list) {
    return isPlainAppend(node, list) || isPlainPop(node, list);
  }

  /// The place that a pop takes its element from; absent when there is none: it raises.
  static std::optional<size_t> placeOf(const Node *pop, size_t elements) {
    int64_t index = torch::jit::toIValue(pop->input(1))->toInt();
    const auto size = static_cast<int64_t>(elements);
    index = index < 0 ? index + size : index;
    if (index < 0 || index >= size)
      return std::nullopt;
    return static_cast<size_t>(index);
  }

  void fix(Node *list) {
    Value *value = list->output();
    const size_t number = *alias_->memoryOf(value);
    const AliasAnalysis::Memory &memory = alias_->memories()[number];
    // The list has no other name and nobody else changes it.
    for (const Node *writer : memory.writers) {
      if (!isPlainChange(writer, value))
        return;
    }
    for (const Value *name : memory.values) {
      if (name != value && name->node()->kind() != c10::aten::append)
        return;
    }
    if (memory.attribute || memory.userInput)
      return;
    std::vector<Event> events;
    for (const Use &use : value->uses())
      events.push_back({enclosing(use.user, list->owningBlock()),
                        isPlainChange(use.user, value) ? std::nullopt : std::optional<Use>(use)});
    llvm::stable_sort(events, [](const Event &a, const Event &b) {
      return a.node != b.node && a.node->isBefore(b.node);
    });
    if (isWorthIt(events, list->inputs().size(), isHeld_[number]))
      rebuild(list, events);
  }

  /// Every reading between two changes costs a list of its own; one that keeps the list would miss
  /// the later changes. A pop of nothing must stay and raise.
  static bool isWorthIt(const std::vector<Event> &events, size_t elements, bool isHeld) {
    size_t total = 0;
    bool readBefore = false, fresh = false;
    for (const Event &event : events) {
      if (!event.read) {
        if (isHeld && readBefore)
          return false;
        if (event.isPop() && !placeOf(event.node, elements))
          return false;
        elements += event.isPop() ? -1 : 1;
        fresh = true;
        continue;
      }
      readBefore = true;
      total += fresh ? elements : 0;
      fresh = false;
    }
    return total <= kMostElements;
  }

  void rebuild(Node *list, const std::vector<Event> &events) {
    std::vector<Value *> elements = list->inputs().vec();
    Value *current = list->output();
    Node *lastChange = nullptr;
    std::vector<Node *> changes;
    for (const Event &event : events) {
      if (!event.read) {
        if (event.isPop()) {
          const size_t place = *placeOf(event.node, elements.size());
          event.node->output()->replaceAllUsesWith(elements[place]);
          elements.erase(elements.begin() + static_cast<int64_t>(place));
        } else {
          elements.push_back(event.node->input(1));
        }
        changes.push_back(event.node);
        lastChange = event.node;
        continue;
      }
      if (lastChange) {
        Node *made = graph_->create(c10::prim::ListConstruct, elements)
                         ->insertBefore(lastChange)
                         ->copyMetadata(lastChange);
        made->output()->setType(list->output()->type());
        current = made->output();
        lastChange = nullptr;
      }
      event.read->user->replaceInput(event.read->offset, current);
    }
    for (Node *change : changes)
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
          .description = "builds a list that append and pop change in straight code at once",
          .requires_ = "a flat graph",
          .guarantees = "the list has no other name; each reader sees the elements it saw before",
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

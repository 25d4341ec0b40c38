// remove-list-mutation: a list or dict that is changed at known places is built at once with all
// its elements, and a popped value is replaced by the element. This removes a U-Net's list of skips
// and the dict of features that a backbone fills.
//
//   %l = ListConstruct(%a)
//   append(%l, %b)             =>   %m = ListConstruct(%a, %b)
//   %c = cat(%l, 0)                 %c = cat(%m, 0)
//   %d = pop(%l, -1)                                            (%d is %b)
//
// Branches may change it too, if both leave the same number of elements and the same keys. Elements
// that differ become results of the prim::If, as do the elements of a list that each branch makes
// itself.
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/TopLevel.h"
#include "passes/support/Contents.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

constexpr size_t kMostElements = 100000; // in all lists that replace one

bool makesContainer(const Node *node) {
  return node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::DictConstruct ||
         (node->kind() == c10::aten::dict && node->inputs().empty());
}

/// A container made from others: copy, list, slice, the sum of two lists.
bool isDerived(const Node *node) {
  return (node->kind() == c10::aten::copy || node->kind() == c10::aten::list ||
          node->kind() == c10::aten::slice || node->kind() == c10::aten::add) &&
         node->outputs().size() == 1 && isListOrDict(*node->output()->type()) &&
         node->input(0)->type()->kind() == node->output()->type()->kind();
}

/// The branch of `choice` that `inner` is in.
Block *branchOf(Node *inner, const Node *choice) {
  while (inner->owningBlock()->owningNode() != choice)
    inner = inner->owningBlock()->owningNode();
  return inner->owningBlock();
}

class RemoveListMutation : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    graph_ = model.graph.get();
    alias_ = aliasesOf(model, context);
    known_.clear();
    dead_.clear();
    changed_ = false;
    isHeld_.assign(alias_->memories().size(), false);
    for (const AliasAnalysis::Memory &memory : alias_->memories()) {
      for (size_t held : memory.holds)
        isHeld_[held] = true;
    }
    order_.clear();
    std::vector<Node *> nodes;
    collect(graph_->block(), nodes);
    for (Node *node : nodes) {
      if (node->kind() == c10::prim::If)
        openResults(node);
      else
        fix(node);
    }
    // Only now: until the end the analysis refers to their results.
    for (Node *node : llvm::reverse(dead_))
      node->destroy();
    return changed_;
  }

private:
  /// A change of the container, or a read of it.
  struct Event {
    Node *user;
    size_t offset;
    bool isChange;
  };
  using Events = llvm::ArrayRef<Event>;
  /// The contents of the container here, and the value that holds them; null: to be built, `before`
  /// here.
  struct State {
    Contents contents;
    Value *value;
    Node *before;
  };

  void collect(Block *block, std::vector<Node *> &nodes) {
    for (Node *node : block->nodes()) {
      order_[node] = 2 * order_.size() + 1;
      if (isDerived(node) || (makesContainer(node) && alias_->isWritten(node->output())))
        nodes.push_back(node);
      for (Block *inner : node->blocks())
        collect(inner, nodes);
      if (node->kind() == c10::prim::If)
        nodes.push_back(node);
    }
    order_[block->return_node()] = 2 * order_.size() + 1;
  }

  /// Whether the container is made in the graph and never changed. Containers that this pass made
  /// are not in the analysis.
  bool isKnown(const Value *container) const {
    return makesContainer(container->node()) &&
           (known_.count(container) ||
            (alias_->memoryOf(container) && !alias_->isWritten(container)));
  }

  /// The contents that the node makes.
  std::optional<Contents> contentsOf(Node *made) const {
    if (makesContainer(made))
      return Contents::of(made);
    if (!isKnown(made->input(0)))
      return std::nullopt;
    std::optional<Contents> contents = Contents::of(made->input(0)->node());
    bool good = contents.has_value();
    if (made->kind() == c10::aten::add)
      good = good && made->inputs().size() == 2 && isKnown(made->input(1)) &&
             contents->extend(made->input(1)->node());
    if (made->kind() == c10::aten::slice) {
      std::optional<int64_t> numbers[3];
      for (size_t i = 0; i < 3 && good; ++i) {
        std::optional<c10::IValue> number = torch::jit::toIValue(made->input(i + 1));
        good = number && (number->isInt() || number->isNone());
        if (good && number->isInt())
          numbers[i] = number->toInt();
      }
      good = good && contents->slice(numbers[0], numbers[1], numbers[2].value_or(1));
    }
    return good ? contents : std::nullopt;
  }

  /// Whether the node changes this container and nothing else, in its own block or in branches
  /// inside.
  bool isPlainChange(const Node *node, size_t place, const Block *block) const {
    if (place != 0 || changeOf(node) == Change::None)
      return false;
    for (const Block *at = node->owningBlock(); at != block; at = at->owningNode()->owningBlock())
      if (at->owningNode()->kind() != c10::prim::If)
        return false;
    return changeOf(node) != Change::Extend || isKnown(node->inputs()[1]);
  }

  void fix(Node *made) {
    std::optional<Contents> contents = contentsOf(made);
    if (!contents || !made->output()->hasUses())
      return;
    if (!alias_->isWritten(made->output())) { // a container made from others
      State state{std::move(*contents), nullptr, made};
      replace(made->output(), build(state, made->output()));
      kill(made);
      return;
    }
    const size_t number = *alias_->memoryOf(made->output());
    const AliasAnalysis::Memory &memory = alias_->memories()[number];
    if (memory.attribute || memory.userInput)
      return;
    // Its names are its maker's result and the results of changes. No other operator changes it.
    std::vector<Value *> names = {made->output()};
    std::vector<Event> events;
    size_t changes = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      for (const Use &use : names[i]->uses()) {
        const bool change = isPlainChange(use.user, use.offset, made->owningBlock());
        if (!change && llvm::is_contained(names, use.user->input(0)) &&
            changeOf(use.user) != Change::None)
          return; // it becomes an element of itself
        changes += change;
        events.push_back({use.user, use.offset, change});
        if (change && !givesElement(changeOf(use.user)))
          for (Value *output : use.user->outputs())
            names.push_back(output);
      }
    }
    if (names.size() != memory.values.size() || changes != memory.writers.size())
      return;
    llvm::stable_sort(events, [this](const Event &a, const Event &b) {
      return order_.lookup(a.user) < order_.lookup(b.user);
    });
    Trial trial{isHeld_[number]};
    Contents after = *contents;
    if (!foresee(made->owningBlock(), events, after, trial) || trial.total > kMostElements)
      return;
    State state{std::move(*contents), made->output(), nullptr};
    rebuild(made->owningBlock(), events, state, made->output());
    known_.insert(made->output());
    changed_ = true;
    if (isDerived(made) && !made->output()->hasUses())
      kill(made);
  }

  /// Every read between two changes costs a separate container. A reader that keeps the container
  /// would miss the later changes.
  struct Trial {
    bool isHeld;
    size_t total = 0;
    bool readBefore = false, fresh = false;
  };

  /// Calls `visit` with each node of the block that contains events, and with these events.
  static bool forEachNode(Block *block, Events events,
                          llvm::function_ref<bool(Node *, Events)> visit) {
    while (!events.empty()) {
      Node *node = nodeIn(block, events.front().user);
      const size_t count =
          llvm::find_if(events,
                        [&](const Event &event) { return nodeIn(block, event.user) != node; }) -
          events.begin();
      if (!visit(node, events.take_front(count)))
        return false;
      events = events.drop_front(count);
    }
    return true;
  }

  static bool hasChange(Events events) {
    return llvm::any_of(events, [](const Event &event) { return event.isChange; });
  }

  /// The events of one branch.
  static std::vector<Event> eventsIn(Block *branch, Events events) {
    std::vector<Event> inside;
    for (const Event &event : events)
      if (branchOf(event.user, branch->owningNode()) == branch)
        inside.push_back(event);
    return inside;
  }

  /// Whether the numbers of elements and the keys are known at every event. Events that raise must
  /// stay.
  static bool foresee(Block *block, Events all, Contents &contents, Trial &trial) {
    return forEachNode(block, all, [&](Node *node, Events events) {
      if (!hasChange(events)) {
        trial.readBefore = true;
        trial.total += trial.fresh ? contents.size() : 0;
        trial.fresh = false;
        return true;
      }
      if (node == events.front().user) {
        trial.fresh = true;
        return !(trial.isHeld && trial.readBefore) && events.size() == 1 && contents.apply(node);
      }
      trial.total += trial.fresh ? contents.size() : 0;
      trial.fresh = false;
      std::vector<Contents> after;
      for (Block *branch : node->blocks()) {
        after.push_back(contents);
        if (!foresee(branch, eventsIn(branch, events), after.back(), trial))
          return false;
      }
      trial.fresh = true;
      contents = after[0];
      return after[0].fits(after[1]);
    });
  }

  Value *build(State &state, Value *container) {
    Node *origin = state.before;
    Node *made = state.contents.build(*graph_)->insertBefore(origin);
    order_[made] = order_.lookup(origin) - 1;
    if (origin->kind() != c10::prim::Return)
      made->copyMetadata(origin);
    made->output()->setType(container->type());
    known_.insert(made->output());
    return state.value = made->output();
  }

  void rebuild(Block *block, Events all, State &state, Value *container) {
    forEachNode(block, all, [&](Node *node, Events events) {
      const bool reads = llvm::any_of(events, [](const Event &event) { return !event.isChange; });
      if (reads && !state.value)
        build(state, container);
      if (!hasChange(events)) {
        for (const Event &event : events)
          event.user->replaceInput(event.offset, state.value);
      } else if (node == events.front().user) {
        state.contents.apply(node);
        if (givesElement(changeOf(node)))
          node->output()->replaceAllUsesWith(state.contents.given());
        state.value = nullptr;
        state.before = node;
        kill(node);
      } else {
        std::vector<State> after;
        for (Block *branch : node->blocks()) {
          after.push_back(state);
          rebuild(branch, eventsIn(branch, events), after.back(), container);
        }
        state = joined(node, std::move(after), container->type());
      }
      return true;
    });
  }

  /// The state after the branches: elements that differ are results of the If.
  static State joined(Node *choice, std::vector<State> after, const c10::TypePtr &type) {
    Contents contents = std::move(after[0].contents);
    contents.join(after[1].contents, [&](Value *first, Value *second) {
      choice->blocks()[0]->registerOutput(first);
      choice->blocks()[1]->registerOutput(second);
      return choice->addOutput()->setType(type->containedTypes().back());
    });
    for (Value *key : contents.keys()) // constants, which may also stand before it
      if (Block *block = key->node()->owningBlock(); llvm::is_contained(choice->blocks(), block))
        key->node()->moveBefore(choice);
    return {std::move(contents), nullptr, choice->next()};
  }

  /// Handles a list or dict that each branch makes itself, and that no operator changes.
  void openResults(Node *choice) {
    const size_t count = choice->outputs().size();
    for (size_t i = 0; i < count; ++i) {
      Value *result = choice->outputs()[i];
      if (!isListOrDict(*result->type()) || !result->hasUses() || alias_->isWritten(result))
        continue;
      std::vector<State> after;
      for (Block *branch : choice->blocks())
        if (Value *made = branch->outputs()[i]; isKnown(made))
          if (std::optional<Contents> contents = Contents::of(made->node()))
            after.push_back({std::move(*contents), nullptr, nullptr});
      if (after.size() != 2 || !after[0].contents.fits(after[1].contents))
        continue;
      State state = joined(choice, std::move(after), result->type());
      replace(result, build(state, result));
    }
  }

  void replace(Value *old, Value *by) {
    old->replaceAllUsesWith(by);
    changed_ = true;
  }

  void kill(Node *node) {
    node->removeAllInputs();
    dead_.push_back(node);
  }

  torch::jit::Graph *graph_ = nullptr;
  std::shared_ptr<const AliasAnalysis> alias_;
  std::vector<bool> isHeld_;                   // by memory
  llvm::DenseMap<const Node *, size_t> order_; // in order of execution; odd, except for new nodes
  llvm::DenseSet<const Value *> known_; // containers that this pass made, or does not change any
                                        // more
  std::vector<Node *> dead_;
  bool changed_ = false;
};

} // namespace

PassInfo removeListMutation() {
  return {.name = "remove-list-mutation",
          .description = "builds a list or dict in one step where all its changes are known, also "
                         "where all branches change it in the same way",
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
          .make = withoutOptions<RemoveListMutation>()};
}

} // namespace pipec

#include "passes/analysis/CutLegality.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Words.h"
#include "ir/values/ArgumentText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/UnsetValues.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// For writes in place and for assignments.
constexpr llvm::StringLiteral kKeepStateTogether =
    "keep a write into a weight or state next to the operators that use it";

bool hasRandom(Node *node) {
  if (drawsOf(node) != Draws::Never)
    return true;
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      if (hasRandom(inner))
        return true;
  return node->hasAttribute(c10::attr::Subgraph) &&
         llvm::any_of(node->g(c10::attr::Subgraph)->nodes(),
                      [](Node *inner) { return hasRandom(inner); });
}

/// Only a return or break in the middle of a function leaves its result unset.
std::string earlyReturnIn(Node *node) {
  const std::string path = modulePathOf(node), line = sourceLineOf(node);
  if (!path.empty())
    return "an early return in " + path;
  return line.empty() ? "an early return" : "an early return at " + line;
}

/// Operators in the blocks of control flow, at any depth.
size_t operatorsInside(Node *node) {
  size_t count = 0;
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      count += (inner->kind() != c10::prim::Constant) + operatorsInside(inner);
  return count;
}

/// The user's name of the memory: an attribute or argument; else empty.
std::string nameIn(const Model &model, const AliasAnalysis::Memory &memory) {
  for (const Value *value : memory.values) {
    if (value->node()->kind() != c10::prim::Param ||
        value->node()->owningBlock() != model.graph->block())
      continue;
    const size_t index = value->offset();
    return index < model.argumentCount() ? model.signature.inputs[index].name
                                         : model.attributes[index - model.argumentCount()].name;
  }
  return "";
}

/// " the result of aten::mul at model.py:88"; empty for an argument or a constant.
std::string resultOf(Node *node) {
  const bool isMade = node->kind() != c10::prim::Param && node->kind() != c10::prim::Constant;
  return isMade ? " the result of " + describeNode(node) : "";
}

/// Whether the node gets the memory directly as an argument of the model. Otherwise its write may
/// concern that argument, but need not.
bool writesArgument(const AliasAnalysis &alias, size_t memory, const Node *writer) {
  return llvm::any_of(writer->inputs(), [&](const Value *value) {
    return value->node()->kind() == c10::prim::Param && alias.memoryOf(value) == memory;
  });
}

} // namespace

bool canTravel(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::ComplexType:
    return true;
  case c10::TypeKind::ListType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::OptionalType:
    return llvm::all_of(type.containedTypes(),
                        [](const c10::TypePtr &inner) { return canTravel(*inner); });
  default:
    return false;
  }
}

CutLegality::CutLegality(const Model &model, const TopLevel &top)
    : alias_(std::make_shared<AliasAnalysis>(model)), operators_(top.operators.size()),
      cover_(top.operators.size() + 1, 0) {
  blockWrites(model, top);
  blockState(model, top);
  blockValuesThatStay(top);
  blockRandom(top);
  noteLargestBlock(top);
  std::vector<int64_t> change(operators_ + 2, 0);
  for (const Blocked &interval : blocked_) {
    ++change[interval.from + 1];
    --change[interval.to + 1];
  }
  int64_t sum = 0;
  for (size_t i = 0; i <= operators_; ++i)
    cover_[i] = sum += change[i];
}

bool CutLegality::legal(size_t boundary) const {
  return boundary > 0 && boundary < operators_ && cover_[boundary] == 0;
}

std::string CutLegality::why(size_t boundary) const {
  if (boundary == 0)
    return "no operator comes before it";
  if (boundary >= operators_)
    return "no operator comes after it";
  for (const Blocked &interval : blocked_)
    if (interval.from < boundary && boundary <= interval.to)
      return interval.why;
  return "";
}

std::vector<size_t> CutLegality::all() const {
  std::vector<size_t> result;
  for (size_t i = 1; i < operators_; ++i)
    if (legal(i))
      result.push_back(i);
  return result;
}

llvm::Error CutLegality::enoughFor(size_t boundaries) const {
  const size_t places = all().size();
  if (boundaries <= places)
    return llvm::Error::success();
  const std::string advice = mainAdvice();
  std::string help = advice.empty() ? "pipe-run MODEL.pt runs it unsplit" : advice;
  if (places > 0)
    help = "request fewer stages" + (advice.empty() ? "" : ", or " + advice);
  return refuseWith(Refusal::TooFewPlaces, boundaries + 1, counted(places + 1, "stage"),
                    mainReasons(), help);
}

void CutLegality::noteLargestBlock(const TopLevel &top) {
  size_t most = 0;
  for (Node *node : top.operators)
    if (size_t inside = operatorsInside(node); inside > most) {
      most = inside;
      largestBlock_ = fmt::format("{} and the {} in it stay in one stage", describeNode(node),
                                  counted(inside, "operator"));
    }
}

/// The few intervals that block most places, longest first.
std::vector<CutLegality::Blocked> CutLegality::longest() const {
  constexpr size_t kMost = 3;
  std::vector<Blocked> intervals = blocked_;
  llvm::stable_sort(
      intervals, [](const Blocked &a, const Blocked &b) { return a.to - a.from > b.to - b.from; });
  if (intervals.size() > kMost)
    intervals.resize(kMost);
  return intervals;
}

/// The number of operators, the longest intervals, and control flow.
std::string CutLegality::mainReasons() const {
  std::string text = fmt::format("it has {} at top level", counted(operators_, "operator"));
  for (const Blocked &interval : longest())
    text += fmt::format("; {} ({} of {} places blocked)", interval.why, interval.to - interval.from,
                        operators_ - 1);
  return largestBlock_.empty() ? text : text + "; " + largestBlock_;
}

/// What to change about each of these reasons; empty: nothing keeps operators together.
std::string CutLegality::mainAdvice() const {
  std::vector<llvm::StringRef> all;
  for (const Blocked &interval : longest())
    if (!llvm::is_contained(all, interval.advice))
      all.push_back(interval.advice);
  if (!largestBlock_.empty())
    all.push_back("move operators out of control flow");
  return all.empty() ? "" : "change what keeps operators together: " + llvm::join(all, "; ");
}

void CutLegality::block(size_t from, size_t to, std::string why, llvm::StringRef advice) {
  to = std::min(to, operators_ - 1);
  if (from < to)
    blocked_.push_back({from, to, std::move(why), advice});
}

void CutLegality::blockWrites(const Model &model, const TopLevel &top) {
  const AliasAnalysis &alias = *alias_;
  size_t next = 0;
  for (Node *node : model.graph->nodes()) {
    operatorAt_.push_back(next);
    if (next < top.operators.size() && top.operators[next] == node)
      ++next;
  }
  operatorAt_.push_back(next);
  for (const AliasAnalysis::Effect &effect : alias.effects())
    if (const size_t index = operatorAt(effect.position);
        barriers_.empty() || barriers_.back() != index)
      barriers_.push_back(index);
  for (const AliasAnalysis::Interval &interval : alias.intervals()) {
    const AliasAnalysis::Memory &memory = alias.memories()[interval.memory];
    std::string writer =
        memory.writers.empty() ? "an operator" : describeNode(memory.writers.back());
    std::string what = "a value";
    if (memory.attribute)
      what = "an attribute";
    else if (memory.userInput && (memory.writers.empty() ||
                                  writesArgument(alias, interval.memory, memory.writers.back())))
      what = "an input of the model";
    else if (memory.userInput)
      what = "what may be an input of the model";
    if (std::string name = nameIn(model, memory); !name.empty())
      what += " (" + name + ")";
    block(operatorAt(interval.from), operatorAt(interval.to),
          writer + " writes into " + what + " that must stay in one stage with it",
          memory.attribute ? llvm::StringRef(kKeepStateTogether) : kWriteElsewhere);
  }
}

size_t CutLegality::operatorAt(int64_t position) const {
  return operatorAt_[std::clamp<int64_t>(position, 0, operatorAt_.size() - 1)];
}

/// Each write comes after the readers since the last write, each reader after the last write.
std::vector<std::pair<uint32_t, uint32_t>> CutLegality::writeOrder() const {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const std::vector<AliasAnalysis::Touch> touches = alias_->touchesOfWritten();
  constexpr uint32_t kNoWriter = ~0u;
  uint32_t writer = kNoWriter;
  std::vector<uint32_t> readers;
  for (size_t i = 0, next; i < touches.size(); i = next) {
    const auto index = static_cast<uint32_t>(operatorAt(touches[i].position));
    bool writes = false;
    for (next = i; next < touches.size() && touches[next].memory == touches[i].memory &&
                   operatorAt(touches[next].position) == index;
         ++next)
      writes |= touches[next].writes;
    if (i == 0 || touches[i - 1].memory != touches[i].memory) {
      writer = kNoWriter;
      readers.clear();
    }
    if (touches[i].position < 0 || index >= operators_)
      continue;
    if (writer != kNoWriter)
      pairs.emplace_back(writer, index);
    if (!writes) {
      readers.push_back(index);
      continue;
    }
    for (uint32_t reader : readers)
      pairs.emplace_back(reader, index);
    readers.clear();
    writer = index;
  }
  return pairs;
}

void CutLegality::blockState(const Model &model, const TopLevel &top) {
  size_t leaves = model.signature.leaves.size();
  for (size_t i = 0; i < model.stateOutputs.size(); ++i) {
    const Attribute &attribute = model.attributes[model.stateOutputs[i]];
    Value *old = model.graph->inputs()[model.argumentCount() + model.stateOutputs[i]];
    Value *changed = model.graph->outputs()[leaves + i];
    size_t first = operators_, last = 0;
    auto touch = [&](Node *node) {
      // The return of a branch is a read by the operator that has the branch.
      if (node == model.graph->return_node() || node->kind() == c10::prim::Param ||
          node->kind() == c10::prim::Constant)
        return;
      size_t index = indexOf(nodeIn(model.graph->block(), node), top);
      first = std::min(first, index);
      last = std::max(last, index);
    };
    for (const torch::jit::Use &use : old->uses())
      touch(use.user);
    touch(changed->node());
    if (first < last)
      block(first, last,
            "attribute " + attribute.name + " is assigned" + resultOf(changed->node()) +
                ": its old and new value must stay in one stage",
            kKeepStateTogether);
  }
}

void CutLegality::blockValuesThatStay(const TopLevel &top) {
  if (top.operators.empty())
    return;
  const UnsetValues unset(*top.operators[0]->owningBlock());
  for (size_t i = 0; i < top.operators.size(); ++i) {
    Node *node = top.operators[i];
    if (node->kind() == c10::prim::Uninitialized)
      continue; // rematerialise makes it again where it is needed
    for (Value *value : node->outputs()) {
      const bool travels = canTravel(*value->type());
      if (travels && !unset.maybe(value))
        continue;
      size_t last = i;
      for (const torch::jit::Use &use : value->uses())
        if (use.user->kind() != c10::prim::Return || use.user->owningBlock() != node->owningBlock())
          last = std::max(last, indexOf(nodeIn(node->owningGraph()->block(), use.user), top));
      block(i, last,
            travels ? earlyReturnIn(node) + " keeps these operators in one stage"
                    : describeNode(node) + " makes a value of type " +
                          value->type()->annotation_str() + ", which cannot be sent between stages",
            travels ? "return once, at the end of the function"
                    : "make such a value next to the operators that use it");
    }
  }
}

void CutLegality::blockRandom(const TopLevel &top) {
  for (size_t i = 0; i < top.operators.size(); ++i)
    if (hasRandom(top.operators[i]))
      draws_.push_back(i);
  const size_t last = draws_.empty() ? 0 : draws_.back();
  for (size_t i = 0; i < last; ++i) {
    Node *node = top.operators[i];
    bool nested = !node->blocks().empty() || node->hasAttribute(c10::attr::Subgraph);
    if ((nested && hasRandom(node)) || drawsOf(node) == Draws::Unknown) {
      block(i, last,
            describeNode(node) +
                (nested ? " draws random numbers inside control flow, and later operators draw too"
                        : " may draw random numbers, depending on its arguments, and later "
                          "operators draw too"),
            nested ? "draw random numbers outside of control flow"
                   : "give an operator that may draw random numbers constants that decide it");
      return; // it extends to the last draw
    }
  }
}

size_t CutLegality::indexOf(Node *node, const TopLevel &top) const {
  // Operators are in program order: isBefore compares positions.
  auto it = std::lower_bound(top.operators.begin(), top.operators.end(), node,
                             [](Node *a, Node *b) { return a != b && a->isBefore(b); });
  return it - top.operators.begin();
}

} // namespace pipec

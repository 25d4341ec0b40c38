#include "passes/analysis/AliasAnalysis.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasBuilder.h"
#include "passes/analysis/OperatorFacts.h"

#include <set>

namespace pipec {

// The second half of AliasBuilder: numbers the memories and summarises their touches.

void AliasBuilder::collect() {
  constexpr size_t kNone = ~size_t(0);
  numbers_.assign(memory_.size(), kNone);
  std::vector<size_t> dense(memory_.size());
  for (MemoryGraph::Location l = 0; l < dense.size(); ++l) {
    size_t &number = numbers_[memory_.find(l)];
    if (number == kNone) {
      number = result_.memories_.size();
      result_.memories_.emplace_back();
    }
    dense[l] = number;
  }
  numbers_ = std::move(dense);

  std::vector<bool> defined(result_.memories_.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    const size_t number = numbers_[locations_[order_[i]]];
    AliasAnalysis::Memory &memory = result_.memories_[number];
    result_.memoryOfValue_[order_[i]] = number;
    memory.values.push_back(order_[i]);
    if (!defined[number] || definedAt_[i] < memory.defined)
      memory.defined = definedAt_[i];
    defined[number] = true;
  }
  for (MemoryGraph::Location location : attributes_)
    result_.memories_[numbers_[location]].attribute = true;
  for (MemoryGraph::Location location : userInputs_)
    result_.memories_[numbers_[location]].userInput = true;
  for (MemoryGraph::Location l = 0; l < numbers_.size(); ++l) {
    std::vector<size_t> &holds = result_.memories_[numbers_[l]].holds;
    if (memory_.find(l) != l)
      continue;
    for (MemoryGraph::Location held : memory_.contents(l))
      holds.push_back(numbers_[held]);
    llvm::sort(holds);
    holds.erase(std::unique(holds.begin(), holds.end()), holds.end());
  }
}

void AliasBuilder::sumTouches() {
  for (const Touch &touch : touches_) {
    const size_t number = numbers_[touch.location];
    AliasAnalysis::Memory &memory = result_.memories_[number];
    result_.touches_.push_back({number, touch.position, touch.writer != nullptr});
    if (memory.firstTouch < 0)
      memory.firstTouch = touch.position;
    memory.lastTouch = touch.position; // the walk is in order of position
    if (!touch.writer)
      continue;
    if (memory.firstWrite < 0)
      memory.firstWrite = touch.position;
    memory.lastWrite = touch.position;
    if (touch.isLate)
      memory.lastLateWrite = touch.position;
    memory.writtenInBlock |= touch.inBlock;
    if (memory.writers.empty() || memory.writers.back() != touch.writer)
      memory.writers.push_back(touch.writer);
    std::vector<size_t> &writes = result_.writes_[touch.writer];
    if (!llvm::is_contained(writes, number))
      writes.push_back(number);
  }
  // A reader of a container reads its contents. For an attribute this holds from its first reader
  // on: that reader may take out a container whose contents are written later.
  std::vector<size_t> work;
  for (size_t i = 0; i < result_.memories_.size(); ++i) {
    if (!result_.memories_[i].holds.empty())
      work.push_back(i);
  }
  while (!work.empty()) {
    const AliasAnalysis::Memory &container = result_.memories_[work.back()];
    work.pop_back();
    for (size_t held : container.holds) {
      AliasAnalysis::Memory &memory = result_.memories_[held];
      const bool last = memory.lastTouch < container.lastTouch;
      const bool first = container.firstTouch >= 0 &&
                         (memory.firstTouch < 0 ||
                          (container.attribute && container.firstTouch < memory.firstTouch));
      if (last)
        memory.lastTouch = container.lastTouch;
      if (first)
        memory.firstTouch = container.firstTouch;
      if ((first || last) && !memory.holds.empty())
        work.push_back(held);
    }
  }
}

void AliasBuilder::markReturned(at::ArrayRef<Value *> outputs) {
  std::vector<size_t> work;
  for (const Value *output : outputs) {
    if (std::optional<size_t> memory = result_.memoryOf(output))
      work.push_back(*memory);
  }
  while (!work.empty()) {
    AliasAnalysis::Memory &memory = result_.memories_[work.back()];
    work.pop_back();
    if (memory.returned)
      continue;
    memory.returned = true;
    work.insert(work.end(), memory.holds.begin(), memory.holds.end());
  }
}

// Queries on the result.

AliasAnalysis::AliasAnalysis(const Model &model) { AliasBuilder(*this).build(model); }

std::optional<size_t> AliasAnalysis::memoryOf(const torch::jit::Value *value) const {
  auto found = memoryOfValue_.find(value);
  if (found == memoryOfValue_.end())
    return std::nullopt;
  return found->second;
}

bool AliasAnalysis::mayAlias(const torch::jit::Value *a, const torch::jit::Value *b) const {
  std::optional<size_t> left = memoryOf(a), right = memoryOf(b);
  return left && right && *left == *right;
}

bool AliasAnalysis::isWritten(const torch::jit::Value *value) const {
  std::optional<size_t> memory = memoryOf(value);
  return memory && memories_[*memory].written();
}

bool AliasAnalysis::isWrittenInside(const torch::jit::Value *value) const {
  std::vector<size_t> work;
  std::vector<bool> seen(memories_.size());
  if (std::optional<size_t> outer = memoryOf(value))
    work.push_back(*outer);
  while (!work.empty()) {
    const size_t number = work.back();
    work.pop_back();
    if (seen[number])
      continue;
    seen[number] = true;
    if (memories_[number].lastLateWrite >= 0)
      return true;
    work.insert(work.end(), memories_[number].holds.begin(), memories_[number].holds.end());
  }
  return false;
}

llvm::ArrayRef<size_t> AliasAnalysis::writesOf(const torch::jit::Node *node) const {
  auto found = writes_.find(node);
  if (found == writes_.end())
    return {};
  return found->second;
}

std::vector<AliasAnalysis::Interval> AliasAnalysis::intervals() const {
  std::vector<Interval> result;
  for (size_t i = 0; i < memories_.size(); ++i) {
    const Memory &memory = memories_[i];
    if (memory.lastLateWrite < 0)
      continue;
    // Memory that outlives this run is read again by the next one, so a cut must not leave any of
    // its readers behind.
    const bool shared = memory.attribute || memory.userInput;
    const int64_t from = shared ? memory.firstTouch : memory.defined;
    const int64_t to = shared ? memory.lastTouch : memory.lastLateWrite;
    if (to > from)
      result.push_back({from, to, i});
  }
  return result;
}

std::vector<AliasAnalysis::Touch> AliasAnalysis::touchesOfWritten() const {
  std::vector<std::vector<Touch>> of(memories_.size());
  for (const Touch &touch : touches_)
    of[touch.memory].push_back(touch);
  std::vector<std::vector<size_t>> heldBy(memories_.size());
  for (size_t i = 0; i < memories_.size(); ++i)
    for (size_t held : memories_[i].holds)
      heldBy[held].push_back(i);
  std::vector<Touch> result;
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (memories_[i].lastLateWrite < 0)
      continue;
    const size_t begin = result.size();
    result.insert(result.end(), of[i].begin(), of[i].end());
    std::vector<size_t> work = heldBy[i];
    std::set<size_t> seen = {i};
    while (!work.empty()) {
      const size_t container = work.back();
      work.pop_back();
      if (!seen.insert(container).second)
        continue;
      for (const Touch &touch : of[container])
        result.push_back({i, touch.position, false});
      work.insert(work.end(), heldBy[container].begin(), heldBy[container].end());
    }
    std::stable_sort(result.begin() + begin, result.end(),
                     [](const Touch &a, const Touch &b) { return a.position < b.position; });
  }
  return result;
}

void AliasAnalysis::print(llvm::raw_ostream &os) const {
  for (size_t i = 0; i < memories_.size(); ++i) {
    const Memory &memory = memories_[i];
    if (!memory.written() && memory.values.size() < 2 && memory.holds.empty())
      continue;
    os << "memory " << i << ":";
    for (const torch::jit::Value *value : memory.values)
      os << " %" << nameOf(value);
    for (size_t held : memory.holds)
      os << " holds " << held;
    if (memory.attribute)
      os << " attribute";
    if (memory.userInput)
      os << " input";
    if (memory.returned)
      os << " returned";
    os << " defined " << memory.defined << " touched " << memory.firstTouch << ".."
       << memory.lastTouch;
    if (memory.written())
      os << " written " << memory.firstWrite << ".." << memory.lastWrite;
    if (memory.writtenInBlock)
      os << " in block";
    for (const torch::jit::Node *writer : memory.writers)
      os << " " << kindOf(writer);
    os << "\n";
  }
  for (const Interval &interval : intervals())
    os << "together (" << interval.from << ", " << interval.to << "] memory " << interval.memory
       << "\n";
  for (const Effect &effect : effects_)
    os << "effect " << effect.position << ": " << kindOf(effect.node)
       << (effect.unknown ? " unknown" : "") << "\n";
}

} // namespace pipec

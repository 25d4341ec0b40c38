// The end of the walk: numbers the memories and sums their touches.
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasBuilder.h"

namespace pipec {

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

} // namespace pipec

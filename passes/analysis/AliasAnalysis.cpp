#include "passes/analysis/AliasAnalysis.h"

#include "passes/PassContext.h"
#include "passes/analysis/AliasBuilder.h"
#include "passes/analysis/OperatorFacts.h"

#include <set>

namespace pipec {

AliasAnalysis::AliasAnalysis(const Model &model) { AliasBuilder(*this).build(model); }

std::shared_ptr<const AliasAnalysis> aliasesOf(const Model &model, const PassContext &context) {
  if (!context.aliases)
    return std::make_shared<const AliasAnalysis>(model);
  if (!*context.aliases)
    *context.aliases = std::make_shared<const AliasAnalysis>(model);
  return *context.aliases;
}

std::optional<size_t> AliasAnalysis::memoryOf(const torch::jit::Value *value) const {
  auto found = memoryOfValue_.find(value);
  if (found == memoryOfValue_.end())
    return std::nullopt;
  return found->second;
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

#include "compiler/planner/Ideals.h"

#include "ir/support/SplitMix64.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr uint32_t kEmpty = ~0u;

} // namespace

Ideals::Ideals(const Items &items)
    : items_(items), words_(std::max<size_t>(1, (items.size() + 63) / 64)) {
  for (size_t item = 0; item < items.size(); ++item)
    itemHash_.push_back(splitMix64(item + 1));
  bits_.assign(words_, 0);
  hash_.push_back(0);
  count_.push_back(0);
  parent_.push_back(0);
  added_.push_back(0);
  firstGap_.push_back(0);
  lastBit_.push_back(0);
  cutStart_.push_back(0);
  cutWeight_.push_back(0);
  rehash(1024);
}

void Ideals::rehash(size_t slots) {
  slots_.assign(slots, {0, kEmpty});
  for (uint32_t ideal = 0; ideal < size(); ++ideal) {
    size_t at = hash_[ideal] & (slots - 1);
    while (slots_[at].ideal != kEmpty)
      at = (at + 1) & (slots - 1);
    slots_[at] = {hash_[ideal], ideal};
  }
}

uint32_t Ideals::grow(uint32_t parent, uint32_t item) {
  uint64_t hash = hash_[parent] ^ itemHash_[item];
  size_t word = item / 64;
  uint64_t bit = uint64_t(1) << (item % 64);
  auto equal = [&](uint32_t other) {
    const uint64_t *a = &bits_[parent * words_], *b = &bits_[other * words_];
    for (size_t w = 0; w < words_; ++w)
      if ((a[w] | (w == word ? bit : 0)) != b[w])
        return false;
    return true;
  };
  size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].ideal != kEmpty; at = (at + 1) & (slots_.size() - 1))
    if (slots_[at].hash == hash && equal(slots_[at].ideal))
      return slots_[at].ideal;

  auto ideal = static_cast<uint32_t>(size());
  slots_[at] = {hash, ideal};
  hash_.push_back(hash);
  count_.push_back(count_[parent] + 1);
  parent_.push_back(parent);
  added_.push_back(item);
  bits_.resize(bits_.size() + words_);
  uint64_t *bits = &bits_[ideal * words_];
  std::copy_n(&bits_[parent * words_], words_, bits);
  bits[word] |= bit;
  uint32_t gap = firstGap_[parent];
  while (gap + 1 < words_ && bits[gap] == ~uint64_t(0))
    ++gap;
  firstGap_.push_back(gap);
  lastBit_.push_back(std::max(lastBit_[parent], static_cast<uint32_t>(word)));
  appendCuts(parent, item);
  if (count_.back() == items_.size())
    full_ = ideal;
  if (size() * 2 > slots_.size())
    rehash(slots_.size() * 4);
  return ideal;
}

void Ideals::appendCuts(uint32_t parent, uint32_t item) {
  // Both lists ascend by net.
  size_t old = cutStart_[parent], oldEnd = cutStart_[parent + 1];
  double weight = 0;
  auto keep = [&](Cut cut) {
    if (cut.inside == items_.netMembers[cut.net].size())
      return;
    weight += items_.netWeight[cut.net];
    cuts_.push_back(cut);
  };
  for (uint32_t net : items_.netsOf[item]) {
    for (; old < oldEnd && cuts_[old].net < net; ++old)
      keep(Cut(cuts_[old]));
    uint32_t before = 0;
    if (old < oldEnd && cuts_[old].net == net)
      before = cuts_[old++].inside;
    keep({net, before + 1});
  }
  for (; old < oldEnd; ++old)
    keep(Cut(cuts_[old]));
  cutStart_.push_back(cuts_.size());
  cutWeight_.push_back(weight);
}

void Ideals::addChain(const std::vector<uint32_t> &order) {
  uint32_t ideal = 0;
  for (uint32_t item : order)
    ideal = grow(ideal, item);
  full_ = ideal;
}

bool Ideals::ready(uint32_t ideal, uint32_t item) const {
  for (uint32_t other : items_.before[item])
    if (!contains(ideal, other))
      return false;
  return true;
}

/// The items that can be added to an ideal: those of its parent, and those that the new item made
/// ready.
void Ideals::appendFrontier(uint32_t ideal) {
  auto add = [&](uint32_t item) { frontier_.push_back(item); };
  if (ideal == 0) {
    for (uint32_t item = 0; item < items_.size(); ++item)
      if (ready(0, item))
        add(item);
  } else {
    uint32_t parent = parent_[ideal], added = added_[ideal];
    for (size_t i = frontierStart_[parent]; i < frontierStart_[parent + 1]; ++i)
      if (frontier_[i] != added)
        add(frontier_[i]);
    for (uint32_t item : items_.after[added])
      if (ready(ideal, item))
        add(item);
  }
  frontierStart_.push_back(frontier_.size());
}

size_t Ideals::bytes() const {
  return bits_.size() * sizeof(uint64_t) + cuts_.size() * sizeof(Cut) +
         slots_.size() * sizeof(Slot) + frontier_.size() * sizeof(uint32_t) + size() * 56;
}

bool Ideals::addAll(size_t limit, const Deadline &deadline) {
  for (uint32_t ideal = 0; ideal < size(); ++ideal) {
    if (ideal % 1024 == 0 && (bytes() > limit || deadline.passed()))
      return false;
    appendFrontier(ideal);
    for (size_t i = frontierStart_[ideal]; i < frontierStart_[ideal + 1]; ++i)
      grow(ideal, frontier_[i]);
  }
  return true;
}

} // namespace pipec

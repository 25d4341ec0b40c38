// Chooses one variant for each of several items, within a budget of time and one of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipec {

struct VariantCost {
  double time = 0, memory = 0;
};

/// The variants of items, one item after the other.
struct VariantTable {
  std::vector<VariantCost> costs;
  std::vector<uint32_t> start{0};
  size_t items() const { return start.size() - 1; }
  void endItem() { start.push_back(static_cast<uint32_t>(costs.size())); }
  void clear() {
    costs.clear();
    start.assign(1, 0);
  }
};

/// Bounds of the least sum of times among choices whose memory is within the limit; infinite: there
/// is no such choice.
struct ChoiceBounds {
  double atLeast = 0, atMost = 0;
};

/// The bounds from the relaxation in which items may be divided, and from rounding it.
ChoiceBounds boundChoice(const VariantTable &items, double memory);

enum class ChoiceAnswer { Yes, No, Unknown }; // Unknown: too many steps

/// Whether there is a choice with at most these sums of time and memory. Yes fills `choice`, the
/// index of every item's variant. Exact: branch and bound if the bounds do not decide.
ChoiceAnswer chooseVariants(const VariantTable &items, double time, double memory,
                            std::vector<uint32_t> &choice);

} // namespace pipec

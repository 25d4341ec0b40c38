#include "passes/analysis/OperatorOrder.h"

#include "ir/NodeInfo.h"

#include <fmt/format.h>

namespace pipec {

OperatorOrder::OperatorOrder(const TopLevel &top, const CutLegality &legality)
    : top_(top), mustFollow_(legality.writeOrder()), writes_(mustFollow_.size()) {
  const auto size = static_cast<uint32_t>(top.operators.size());
  for (size_t i = 1; i < legality.draws().size(); ++i)
    mustFollow_.emplace_back(legality.draws()[i - 1], legality.draws()[i]);
  // Constraints with earlier or later neighbours follow from those with the nearest ones.
  const std::vector<size_t> &barriers = legality.barriers();
  for (size_t b = 0; b < barriers.size(); ++b) {
    const auto barrier = static_cast<uint32_t>(barriers[b]);
    const size_t end = b + 1 < barriers.size() ? barriers[b + 1] : size;
    for (auto i = static_cast<uint32_t>(b ? barriers[b - 1] : 0); i < barrier; ++i)
      mustFollow_.emplace_back(i, barrier);
    for (uint32_t i = barrier + 1; i < end; ++i)
      mustFollow_.emplace_back(barrier, i);
  }
}

std::string OperatorOrder::why(const std::vector<size_t> &order) const {
  constexpr uint32_t kAbsent = ~0u;
  std::vector<uint32_t> place(top_.operators.size(), kAbsent);
  for (size_t i = 0; i < order.size(); ++i)
    place[order[i]] = static_cast<uint32_t>(i);
  auto turned = [&](const std::pair<uint32_t, uint32_t> &pair) {
    return place[pair.first] != kAbsent && place[pair.second] != kAbsent &&
           place[pair.first] > place[pair.second];
  };
  for (const auto &pair : readsOf(top_))
    if (turned(pair))
      return fmt::format("{} reads what {} makes", name(pair.second), name(pair.first));
  for (size_t i = 0; i < mustFollow_.size(); ++i)
    if (const auto &[first, second] = mustFollow_[i]; turned(mustFollow_[i]))
      return fmt::format("{} must run before {}{}", name(first), name(second),
                         i < writes_ ? ": one writes memory that both use" : "");
  return "";
}

std::string OperatorOrder::name(uint32_t index) const {
  return describeNode(top_.operators[index]);
}

} // namespace pipec

#include "ir/schedule/ClusterCosts.h"

namespace pipec {
namespace {

class Placing {
public:
  Placing(const Cluster &cluster, ProgramCosts &costs) : cluster_(cluster), costs_(costs) {}

  void connect(size_t from, size_t to) {
    if (from == to || costs_.linkOf.count({from, to}))
      return;
    costs_.linkOf[{from, to}] = linkOf(deviceOf(from), deviceOf(to));
  }

  size_t deviceOf(size_t rank) const { return rank % cluster_.devices.size(); }

private:
  /// A shared link of the file, an ordered pair of devices, or the way inside a device.
  struct Key {
    size_t shared = SIZE_MAX, from = 0, to = 0;
    auto operator<=>(const Key &) const = default;
  };

  size_t linkOf(size_t from, size_t to) {
    Key key{SIZE_MAX, from, to};
    LinkCosts link;
    if (from == to) {
      key = {SIZE_MAX, 0, 0};
    } else {
      const std::optional<size_t> found =
          cluster_.indexOfLink(cluster_.devices[from].name, cluster_.devices[to].name);
      const ClusterLink named = found ? cluster_.links[*found] : ClusterLink();
      link = {named.latencyNs, named.bytesPerSecond};
      if (named.shared)
        key = {*found, 0, 0};
    }
    const auto [it, isNew] = known_.try_emplace(key, costs_.links.size());
    if (isNew)
      costs_.links.push_back(link);
    return it->second;
  }

  const Cluster &cluster_;
  ProgramCosts &costs_;
  std::map<Key, size_t> known_;
};

} // namespace

void placeOn(const Cluster &cluster, const Program &program, ProgramCosts &costs) {
  costs.links.clear();
  costs.linkOf.clear();
  costs.deviceOfRank.clear();
  Placing placing(cluster, costs);
  for (const Lane &lane : program.lanes)
    placing.connect(lane.from, lane.to);
  for (const std::vector<size_t> &ranks : program.groups)
    for (size_t i = 0; i < ranks.size(); ++i)
      placing.connect(ranks[i], ranks[(i + 1) % ranks.size()]);
  if (program.ranks.size() > cluster.devices.size())
    for (size_t r = 0; r < program.ranks.size(); ++r)
      costs.deviceOfRank.push_back(placing.deviceOf(r));
}

} // namespace pipec

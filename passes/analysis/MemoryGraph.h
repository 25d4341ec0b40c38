// Union-find over memory locations. A container's location also records what the container may
// hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipec {

/// Locations are numbers that `fresh` gives. Two locations that may be the same memory are united;
/// the union of two containers holds the contents of both. Contents are a list of members until an
/// operator takes an element out. Only then are the members united, so `cat([a, b])` does not make
/// `a` and `b` one memory. Amortised near-linear.
///
///   l = [a, b]        hold(l, a), hold(l, b)      a and b stay apart
///   x = l[i]          unite(x, element(l))        now a, b and x are one
class MemoryGraph {
public:
  using Location = uint32_t;

  Location fresh();
  /// The current representative of the location; it changes when locations are united.
  Location find(Location location);
  void unite(Location a, Location b);
  /// `container` may hold `member`.
  void hold(Location container, Location member);
  /// The one location of all current and future contents of `container`.
  Location element(Location container);
  /// Unites everything reachable from the location with it, so that it holds itself. For operators
  /// with unknown effects.
  void collapse(Location location);
  /// The locations that `location` may hold directly. They are one after a call of `element`.
  std::vector<Location> contents(Location location);

  size_t size() const { return cells_.size(); }

private:
  struct Cell {
    Location parent;
    uint32_t rank = 0;
    bool hasElement = false;
    Location element = 0;
    std::vector<Location> members;
  };
  void uniteAll(std::vector<std::pair<Location, Location>> work);

  std::vector<Cell> cells_;
};

} // namespace pipec

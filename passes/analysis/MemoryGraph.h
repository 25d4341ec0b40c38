// Union-find over memory locations, where a container's location also knows what the container may
// hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipec {

/// Locations are numbers given by `fresh`. Two locations that may be the same memory are united;
/// whatever two united containers hold stays held by both. Contents are kept as a list of members
/// until somebody takes an element out: only then are the members united, so that `cat([a, b])`
/// does not make `a` and `b` one memory. Amortised near-linear.
///
///   l = [a, b]        hold(l, a), hold(l, b)      a and b stay apart
///   x = l[i]          unite(x, element(l))        now a, b and x are one
class MemoryGraph {
public:
  using Location = uint32_t;

  Location fresh();
  /// The number that stands for the location now; changes when locations are united.
  Location find(Location location);
  void unite(Location a, Location b);
  /// `container` may hold `member`.
  void hold(Location container, Location member);
  /// The one location of everything that `container` holds now or later.
  Location element(Location container);
  /// Everything reachable from the location becomes one with it: what it holds is again itself. For
  /// operators of which too little is known.
  void collapse(Location location);
  /// The locations that `location` may hold directly; several only while nobody asked for
  /// `element`.
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

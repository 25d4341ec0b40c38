#include "passes/analysis/MemoryGraph.h"

namespace pipec {

MemoryGraph::Location MemoryGraph::fresh() {
  Cell cell;
  cell.parent = static_cast<Location>(cells_.size());
  cells_.push_back(std::move(cell));
  return cells_.back().parent;
}

MemoryGraph::Location MemoryGraph::find(Location location) {
  while (cells_[location].parent != location) {
    cells_[location].parent = cells_[cells_[location].parent].parent;
    location = cells_[location].parent;
  }
  return location;
}

void MemoryGraph::unite(Location a, Location b) { uniteAll({{a, b}}); }

void MemoryGraph::uniteAll(std::vector<std::pair<Location, Location>> work) {
  while (!work.empty()) {
    Location kept = find(work.back().first), gone = find(work.back().second);
    work.pop_back();
    if (kept == gone)
      continue;
    if (cells_[kept].rank < cells_[gone].rank)
      std::swap(kept, gone);
    if (cells_[kept].rank == cells_[gone].rank)
      ++cells_[kept].rank;
    cells_[gone].parent = kept;

    Cell &a = cells_[kept];
    Cell &b = cells_[gone];
    if (a.hasElement && b.hasElement)
      work.push_back({a.element, b.element});
    if (!a.hasElement && b.hasElement) {
      a.hasElement = true;
      a.element = b.element;
    }
    // The shorter list of members moves, so that a member moves at most log(n) times.
    if (a.members.size() < b.members.size())
      a.members.swap(b.members);
    a.members.insert(a.members.end(), b.members.begin(), b.members.end());
    b.members.clear();
    b.members.shrink_to_fit();
    if (!a.hasElement)
      continue;
    for (Location member : a.members)
      work.push_back({a.element, member});
    a.members.clear();
  }
}

void MemoryGraph::hold(Location container, Location member) {
  Cell &cell = cells_[find(container)];
  if (cell.hasElement) {
    unite(cell.element, member);
    return;
  }
  cell.members.push_back(member);
}

MemoryGraph::Location MemoryGraph::element(Location container) {
  Location root = find(container);
  if (!cells_[root].hasElement) {
    Location all = fresh();
    Cell &cell = cells_[root];
    cell.hasElement = true;
    cell.element = all;
    std::vector<std::pair<Location, Location>> work;
    for (Location member : cell.members)
      work.push_back({all, member});
    cell.members.clear();
    uniteAll(std::move(work));
  }
  return find(cells_[find(container)].element);
}

void MemoryGraph::collapse(Location location) {
  // Each round removes one location, so this ends.
  while (find(location) != element(location))
    unite(location, element(location));
}

std::vector<MemoryGraph::Location> MemoryGraph::contents(Location location) {
  const Cell &cell = cells_[find(location)];
  if (cell.hasElement)
    return {find(cell.element)};
  std::vector<Location> result;
  for (Location member : cell.members)
    result.push_back(find(member));
  return result;
}

} // namespace pipec

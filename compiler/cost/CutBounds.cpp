#include "compiler/cost/CutBounds.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace pipec {

namespace {

/// In a connected graph some result crosses the first cut: its maker's stage makes and sends it.
double leastTransfer(const PartitionProblem &problem) {
  std::vector<uint32_t> piece(problem.nodes());
  std::iota(piece.begin(), piece.end(), 0);
  auto pieceOf = [&](uint32_t i) {
    while (piece[i] != i)
      i = piece[i] = piece[piece[i]];
    return i;
  };
  double least = kUnlimited;
  size_t pieces = problem.nodes();
  for (auto [maker, reader] : problem.edges) {
    const uint32_t a = pieceOf(maker), b = pieceOf(reader);
    pieces -= a != b;
    piece[a] = b;
    if (problem.color[maker] != problem.color[reader])
      least = std::min(least, problem.time[0][maker] + problem.outCost[maker]);
  }
  return pieces == 1 && least < kUnlimited ? least : 0;
}

} // namespace

double simpleBound(const PartitionProblem &problem, size_t stages, bool transfers) {
  double total = 0;
  std::map<int64_t, double> classes;
  for (size_t i = 0; i < problem.nodes(); ++i) {
    total += problem.time[0][i];
    classes[problem.color[i]] += problem.time[0][i];
  }
  double bound = total / double(stages);
  if (transfers)
    bound = std::max(bound, leastTransfer(problem));
  for (const auto &[color, time] : classes)
    bound = std::max(bound, time);
  return bound;
}

} // namespace pipec

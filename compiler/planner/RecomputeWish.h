// Recomputation in a training, as options and planner name it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipec {

/// Which stages run their forward again in the backward. ExceptLast: all, but not for the last
/// micro-batch of a step, whose backward often follows at once. Stages: those of a list. Auto:
/// those for which memory is too small.
enum class RecomputeChoice { Never, Always, ExceptLast, Stages, Auto };

/// A choice with its list.
struct RecomputeWish {
  RecomputeChoice choice = RecomputeChoice::Auto;
  std::vector<size_t> stages; // of RecomputeChoice::Stages, ascending

  RecomputeWish(RecomputeChoice of = RecomputeChoice::Auto) : choice(of) {}
  explicit RecomputeWish(std::vector<size_t> list)
      : choice(RecomputeChoice::Stages), stages(std::move(list)) {}
  bool operator==(const RecomputeWish &) const = default;

  bool isAuto() const { return choice == RecomputeChoice::Auto; }
  /// Whether it names this stage; Auto names none.
  bool names(size_t stage) const {
    if (choice != RecomputeChoice::Stages)
      return choice == RecomputeChoice::Always || choice == RecomputeChoice::ExceptLast;
    for (const size_t each : stages)
      if (each == stage)
        return true;
    return false;
  }
};

} // namespace pipec

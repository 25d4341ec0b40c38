// What goes from stage to stage, as the lines of a picture (StageGraph).
#pragma once

#include "ir/plan/Plan.h"

#include <optional>

namespace pipec {

/// What goes one way: a line of the picture.
struct GraphLine {
  enum class Kind { Next, Skip, Weight, Tied };
  Kind kind = Kind::Next;
  size_t from = 0;
  std::vector<size_t> to;         // ascending
  std::vector<std::string> texts; // of each thing on it
  std::vector<std::string> short_;
  int64_t bytes = 0;
  bool known = true; // the bytes
  size_t track = 0;  // of those beside the boxes, the inner ones first; not of Next

  std::string label() const;
};

/// What has the same way is one line. Lines that overlap have tracks of their own, short ways the
/// inner ones.
std::vector<GraphLine> graphLines(const Plan &plan);

} // namespace pipec

// The channels between stages as lines of a picture (StageGraph).
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// All channels with the same ends: one line of the picture.
struct GraphLine {
  enum class Kind { Next, Skip, Weight, Tied };
  Kind kind = Kind::Next;
  size_t from = 0;
  std::vector<size_t> to;         // ascending
  std::vector<std::string> texts; // one per channel on it
  std::vector<std::string> short_;
  int64_t bytes = 0;
  bool known = true; // whether the bytes are known
  size_t track = 0;  // of the lines beside the boxes, inner ones first; unused for Next

  std::string label() const;
};

/// Channels with the same ends are one line. Overlapping lines have separate tracks; short lines
/// are the inner ones.
std::vector<GraphLine> graphLines(const Plan &plan);

} // namespace pipec

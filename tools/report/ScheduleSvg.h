// A simulated schedule as a picture for people: SVG without scripts or fonts of its own.
#pragma once

#include "ir/schedule/Timing.h"

namespace pipec {

struct SvgText {
  std::string title, subtitle;    // no title: no room for both
  std::vector<std::string> notes; // per rank, right of its lane
  int64_t step = 0;               // times are steps of this length, not nanoseconds
  bool inPage = false;            // for a page of HTML that has colours for the classes
};

/// One lane per rank, one box per action: colour by kind, lighter for a rank's later stages, its
/// micro-batch inside where it fits, a tooltip with stage and times; idle time shows the lane. Time
/// axis and legend below. What is not a box has a class (paper, ink, soft, lane, tick). Same
/// schedule, same bytes.
std::string drawSvg(const Schedule &schedule, const Timing &timing, const SvgText &text);

} // namespace pipec

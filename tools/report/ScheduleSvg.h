// A simulated schedule as a picture for people: SVG without scripts or fonts of its own.
#pragma once

#include "ir/schedule/Timing.h"

namespace pipec {

struct SvgText {
  std::string title, subtitle;    // empty title: no room for both
  std::vector<std::string> notes; // per rank, right of its lane
  int64_t step = 0;               // the unit of time is a step of this length, not a nanosecond
  bool inPage = false;            // for an HTML page, which has colours for the classes
};

/// One lane per rank, one box per action. A box has a colour by kind (lighter for a rank's later
/// stages), its micro-batch if it fits, and a tooltip with stage and times; idle time shows the
/// lane. Time axis and legend are below. Everything except the boxes has a class (paper, ink, soft,
/// lane, tick). The same schedule gives the same bytes.
std::string drawSvg(const Schedule &schedule, const Timing &timing, const SvgText &text);

} // namespace pipec

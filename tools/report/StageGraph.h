// The stages of a plan as a picture: what goes from where to where, and who carries how much.
#pragma once

#include "tools/report/PlanTiming.h"

namespace pipec {

/// An SVG for a page of HTML, whose style gives the classes their colours:
///
///   │┌─────────────┐  load  ▆▆▆▆▆▆    memory ▆▆▆
///  ╭┤│ stage 0     │
///  ││└──────┬──────┘
///  ││       ▼ c0 float32[B,64] 512 B
///  ││┌─────────────┐
///  │││ stage 1     │  ▆▆▆              ▆
///
/// Boxes from top to bottom; what goes to the next stage between them, everything else on tracks at
/// the left, with its text along the track. Every line and box says more when pointed at. What has
/// the same way is one line.
std::string drawStageGraph(const Plan &plan, const PlanTiming &timing);

} // namespace pipec

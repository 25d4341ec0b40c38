// The stages of a plan as a picture: the channels between them, and each stage's load and memory.
#pragma once

#include "tools/report/PlanTiming.h"

namespace pipec {

/// An SVG for an HTML page, whose style defines the colours of the classes:
///
///   │┌─────────────┐  load  ▆▆▆▆▆▆    memory ▆▆▆
///  ╭┤│ stage 0     │
///  ││└──────┬──────┘
///  ││       ▼ c0 float32[B,64] 512 B
///  ││┌─────────────┐
///  │││ stage 1     │  ▆▆▆              ▆
///
/// Boxes go from top to bottom. Channels to the next stage are between the boxes; all others are on
/// tracks at the left, with their text along the track. Every line and box has a tooltip. Channels
/// with the same ends are one line.
std::string drawStageGraph(const Plan &plan, const PlanTiming &timing);

} // namespace pipec

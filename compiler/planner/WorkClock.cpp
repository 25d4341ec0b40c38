#include "compiler/planner/WorkClock.h"

namespace pipec {

namespace {

constexpr double kSecondsPerAction = 1e-7; // about, on one core

thread_local uint64_t spent = 0; // actions

} // namespace

void WorkClock::spend(uint64_t actions) { spent += actions; }

double WorkClock::seconds() { return static_cast<double>(spent) * kSecondsPerAction; }

} // namespace pipec

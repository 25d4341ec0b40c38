// Runs a program with real queues of bounded length and real (symbolic) values, one op of one rank
// at a time, and says how it went. Shares no code with ir/schedule's lowering or checker: it is
// what their answers are compared with.
#pragma once

#include "ir/schedule/Program.h"

#include <string>

namespace pipec {

enum class Verdict {
  Runs,
  Misfit,       // an op that this rank or plan cannot execute at all
  MissingValue, // an op reads what is not there
  Repeated,     // an op ran before
  WrongOrder,   // a message or collective comes when another is expected
  Deadlock,
  Unfinished, // it ends, but something was never done
};
const char *toString(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::Runs;
  std::string why;
};

Outcome execute(const Program &program, const Plan &plan, const RunShape &shape);

} // namespace pipec

// Programs: what ranks really execute, lowered from a compute schedule and a plan. Pure data with a
// text form.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

enum class OpKind { Forward, Post, Send, Take };

/// One step of a rank. F: run `stage` on `microBatch`. TAKE: wait for `channel` of `microBatch` on
/// `lane`. SEND: hand it over. POST: announce that a TAKE will come (transports that need a buffer
/// first). Text: "F 2 mb=0", "TAKE ch=3 mb=0 lane=1".
struct Op {
  OpKind kind = OpKind::Forward;
  size_t stage = 0;   // Forward
  size_t channel = 0; // Post, Send, Take
  size_t lane = 0;    // Post, Send, Take
  int64_t microBatch = 0;
  bool operator==(const Op &) const = default;
};

/// An ordered pair of ranks: messages on it are taken in the order they were sent, at most `window`
/// of them wait.
struct Lane {
  size_t from = 0, to = 0;
  size_t window = 1;
  bool operator==(const Lane &) const = default;
};

struct Program {
  std::vector<std::vector<Op>> ranks;
  std::vector<Lane> lanes;
  bool operator==(const Program &) const = default;
};

std::string toString(const Program &program);
llvm::Expected<Program> programFromText(llvm::StringRef text);

/// A value that several stages of one other rank read is sent once to that rank. Channels inside a
/// rank cost no op. Weight channels are not part of a program of an inference: they are delivered
/// once at load time. Errors: Usage when the schedule does not fit the plan (stage on two ranks,
/// missing or repeated action), naming the first one.
llvm::Expected<Program> lower(const Schedule &schedule, const Plan &plan, int64_t microBatches);

/// Independent of lower(): every forward once, every TAKE has its SEND in lane order, inputs are
/// there when a forward runs, and no rank waits in a cycle with lanes bounded by their windows.
/// Errors: BadArtifact naming rank, op and, for a deadlock, the cycle.
llvm::Error check(const Program &program, const Plan &plan, int64_t microBatches);

/// The schedule of an artifact: its text read, lowered for the plan's number of micro-batches, and
/// checked. Errors: BadArtifact, whatever is wrong with it.
llvm::Expected<Program> checkSchedule(llvm::StringRef csv, const Plan &plan);

} // namespace pipec

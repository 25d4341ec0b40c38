#include "tools/run/TraceFile.h"

#include "ir/schedule/Program.h"
#include "tools/report/TraceEvents.h"

#include <map>
#include <tuple>

namespace pipec {

namespace {

using llvm::json::Object;

/// Lane, payload, channel, sending stage and micro-batch: what a SEND and its TAKE agree in.
using Message = std::tuple<uint32_t, Payload, uint32_t, uint32_t, int32_t>;
Message messageOf(const Op &op) {
  return {op.lane, op.payload, op.channel, op.stage, op.microBatch};
}

/// What a row's event is, beside the letters of F, B, I, W and R.
const char *categoryOf(OpKind kind) {
  if (kind == OpKind::Optimize)
    return "optimizer";
  return isCollective(kind) ? "collective" : "transfer";
}

class Writer {
public:
  explicit Writer(const Program &program) : program_(program) {}

  /// One set of rows: all ranks of the program with these times.
  void rows(const std::vector<std::vector<Timing::Interval>> &times, size_t firstPid,
            const std::string &suffix, size_t place) {
    std::map<Message, std::pair<size_t, int64_t>> sent;
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      for (size_t i = 0; i < program_.ranks[r].size(); ++i)
        if (const Op &op = program_.ranks[r][i]; op.kind == OpKind::Send)
          sent[messageOf(op)] = {firstPid + r, times[r][i].start};
    for (size_t r = 0; r < program_.ranks.size(); ++r) {
      const size_t pid = firstPid + r;
      events_.process(pid, fmt::format("rank {}{}", r, suffix), 2 * r + place);
      for (size_t i = 0; i < program_.ranks[r].size(); ++i) {
        const Op &op = program_.ranks[r][i];
        span(pid, op, times[r][i]);
        const auto from = op.kind == OpKind::Take ? sent.find(messageOf(op)) : sent.end();
        if (from != sent.end())
          events_.arrow(toString(op), from->second.first, from->second.second, pid,
                        times[r][i].end);
      }
    }
  }

  std::string text(Object about) const { return events_.text(std::move(about)); }

private:
  void span(size_t pid, const Op &op, const Timing::Interval &time) {
    const std::string text = toString(op);
    if (!isCompute(op.kind)) {
      events_.span(pid, text, categoryOf(op.kind), time, {});
      return;
    }
    const std::string letter = text.substr(0, 1); // as in a schedule
    events_.span(pid, fmt::format("{}/{}/{}", op.stage, op.microBatch, letter), letter, time,
                 Object{{"stage", static_cast<int64_t>(op.stage)},
                        {"micro_batch", static_cast<int64_t>(op.microBatch)}});
  }

  const Program &program_;
  TraceEvents events_;
};

} // namespace

std::string traceFile(const RunTrace &trace, const SimulatedRun &predicted,
                      llvm::StringRef schedule, int64_t batches) {
  const size_t ranks = trace.program.ranks.size();
  int64_t stepNs = 0;
  for (const std::vector<Timing::Interval> &rank : trace.ranks)
    for (const Timing::Interval &time : rank)
      stepNs = std::max(stepNs, time.end);
  Writer writer(trace.program);
  writer.rows(trace.ranks, 0, "", 0);
  writer.rows(predicted.ranks, ranks, ", predicted", 1);
  return writer.text(Object{{"schedule", schedule},
                            {"simulated", false},
                            {"ranks", static_cast<int64_t>(ranks)},
                            {"replicas", static_cast<int64_t>(trace.shape.replicas)},
                            {"micro_batches", trace.shape.microBatches},
                            {"batches", batches},
                            {"step_ns", stepNs},
                            {"predicted_step_ns", predicted.makespan}});
}

} // namespace pipec

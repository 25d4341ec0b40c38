// The file format of chrome://tracing and Perfetto: processes, spans, arrows, counters.
#pragma once

#include "ir/schedule/Timing.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Collects events and prints them in the order in which they came. Times are in nanoseconds; the
/// file has microseconds.
class TraceEvents {
public:
  /// A row of the picture: a process with one thread. Rows are sorted by `place`.
  void process(size_t pid, const std::string &name, size_t place);
  void span(size_t pid, const std::string &name, const std::string &category,
            const Timing::Interval &time, llvm::json::Object arguments);
  void arrow(const std::string &name, size_t fromPid, int64_t fromNs, size_t toPid, int64_t toNs);
  void counter(size_t pid, const std::string &name, const std::string &key, int64_t atNs,
               int64_t value);

  /// The document. `about` becomes its "otherData".
  std::string text(llvm::json::Object about) const;

private:
  void add(llvm::json::Object event);

  std::vector<std::string> events_;
  int64_t arrows_ = 0;
};

} // namespace pipec

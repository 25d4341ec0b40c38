#include "tools/report/TraceEvents.h"

#include "ir/support/Json.h"

namespace pipec {

using llvm::json::Object;

namespace {

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

} // namespace

void TraceEvents::add(Object event) { events_.push_back(jsonText(std::move(event))); }

void TraceEvents::process(size_t pid, const std::string &name, size_t place) {
  const auto number = static_cast<int64_t>(pid);
  add(Object{
      {"ph", "M"}, {"name", "process_name"}, {"pid", number}, {"args", Object{{"name", name}}}});
  add(Object{{"ph", "M"},
             {"name", "process_sort_index"},
             {"pid", number},
             {"args", Object{{"sort_index", static_cast<int64_t>(place)}}}});
  add(Object{{"ph", "M"},
             {"name", "thread_name"},
             {"pid", number},
             {"tid", 0},
             {"args", Object{{"name", "compute"}}}});
}

void TraceEvents::span(size_t pid, const std::string &name, const std::string &category,
                       const Timing::Interval &time, Object arguments) {
  add(Object{{"ph", "X"},
             {"name", name},
             {"cat", category},
             {"pid", static_cast<int64_t>(pid)},
             {"tid", 0},
             {"ts", microseconds(time.start)},
             {"dur", microseconds(time.end - time.start)},
             {"args", std::move(arguments)}});
}

void TraceEvents::arrow(const std::string &name, size_t fromPid, int64_t fromNs, size_t toPid,
                        int64_t toNs) {
  add(Object{{"ph", "s"},
             {"name", name},
             {"cat", "transfer"},
             {"id", ++arrows_},
             {"pid", static_cast<int64_t>(fromPid)},
             {"tid", 0},
             {"ts", microseconds(fromNs)}});
  add(Object{{"ph", "f"},
             {"bp", "e"},
             {"name", name},
             {"cat", "transfer"},
             {"id", arrows_},
             {"pid", static_cast<int64_t>(toPid)},
             {"tid", 0},
             {"ts", microseconds(toNs)}});
}

void TraceEvents::counter(size_t pid, const std::string &name, const std::string &key, int64_t atNs,
                          int64_t value) {
  add(Object{{"ph", "C"},
             {"name", name},
             {"pid", static_cast<int64_t>(pid)},
             {"ts", microseconds(atNs)},
             {"args", Object{{key, value}}}});
}

std::string TraceEvents::text(Object about) const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + jsonText(std::move(about)) +
                     ",\"traceEvents\":[\n";
  for (size_t i = 0; i < events_.size(); ++i)
    text += (i ? ",\n" : "") + events_[i];
  return text + "\n]}\n";
}

} // namespace pipec

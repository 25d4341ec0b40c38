#include "tools/cli/ProgressLine.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace pipec {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirst(300); // shorter steps do not need a line
constexpr std::chrono::milliseconds kAgain(500);

/// The one line of this process, because there is one terminal.
struct Line {
  std::mutex mutex;
  std::condition_variable changed;
  std::thread drawer;
  ProgressEvent event;
  Clock::time_point eventAt;
  bool wanted = false, shown = false, ended = false;

  void write(const std::string &text) {
    [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  }

  void clear() {
    if (std::exchange(shown, false))
      write("\r\x1b[K");
  }

  void draw() {
    ProgressEvent now = event;
    if (now.leftNs >= 0)
      now.leftNs -= std::chrono::nanoseconds(Clock::now() - eventAt).count();
    if (event.leftNs >= 0 && now.leftNs < 0)
      now.leftNs = 0;
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    shown = true;
    write("\r" + progressText(now, known ? size.ws_col - 1 : 79) + "\x1b[K");
  }

  void serve() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kFirst, [&] { return !wanted; });
    while (wanted && !ended) {
      if (!event.step.empty())
        draw();
      changed.wait_for(lock, kAgain, [&] { return !wanted; });
    }
  }
};

Line &line() {
  static Line &only = *new Line; // threads may outlive static objects
  return only;
}

bool canDraw() {
  const char *terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && terminal && *terminal && std::strcmp(terminal, "dumb") != 0;
}

std::string aboutTime(int64_t ns) {
  const int64_t seconds = (ns + 999'999'999) / 1'000'000'000;
  if (seconds <= 1)
    return "about 1 s left";
  return seconds < 120 ? fmt::format("about {} s left", seconds)
                       : fmt::format("about {} min left", (seconds + 30) / 60);
}

/// "[########............] ".
std::string bar(size_t done, size_t total) {
  constexpr size_t kWidth = 20;
  const size_t filled = std::min(done, total) * kWidth / total;
  return "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] ";
}

} // namespace

std::string progressText(const ProgressEvent &event, size_t columns) {
  std::string text = event.step;
  if (!event.unit.empty())
    text += event.total ? fmt::format(": {} of {} {}", event.done, event.total, event.unit)
                        : fmt::format(": {} {}", event.done, event.unit);
  if (event.leftNs >= 0)
    text += ", " + aboutTime(event.leftNs);
  if (event.total)
    if (std::string with = bar(event.done, event.total) + text; with.size() <= columns)
      return with;
  text.resize(std::min(text.size(), columns));
  return text;
}

ProgressLine::ProgressLine() {
  if (!canDraw())
    return;
  line().wanted = true;
  line().drawer = std::thread([] { line().serve(); });
}

ProgressLine::~ProgressLine() {
  {
    std::lock_guard lock(line().mutex);
    line().wanted = false;
    line().clear();
    line().changed.notify_all();
  }
  if (line().drawer.joinable())
    line().drawer.join();
}

ProgressCallback ProgressLine::callback() {
  if (!line().wanted)
    return {};
  return [](const ProgressEvent &event) {
    std::lock_guard lock(line().mutex);
    line().event = event;
    line().eventAt = Clock::now();
    if (line().shown)
      line().draw();
  };
}

void aboveProgress(llvm::function_ref<void()> write) {
  std::lock_guard lock(line().mutex);
  line().clear();
  write();
}

void endProgress() {
  std::lock_guard lock(line().mutex);
  line().ended = true;
  line().clear();
}

} // namespace pipec

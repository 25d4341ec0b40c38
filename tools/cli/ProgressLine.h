// The progress line: the last line of a terminal shows the current step, until the command ends.
#pragma once

#include "compiler/Progress.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

/// "[########............] running the source: 3 of 7 runs, about 12 s left", without the bar where
/// the total is not known or that is longer than `columns`, and never longer than these.
std::string progressText(const ProgressEvent &event, size_t columns);

/// Draws the events of its callback and counts down the remaining time, if stderr is a terminal
/// that can clear a line (TERM is not dumb). Otherwise the callback is empty. One at a time.
class ProgressLine {
public:
  ProgressLine();
  /// Clears the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  ProgressCallback callback();
};

/// Writes to stderr while no line is shown; the line returns with the next event. Any thread.
void aboveProgress(llvm::function_ref<void()> write);

/// For code that ends the process: clears the line for good.
void endProgress();

} // namespace pipec

// One line at the end of a terminal that says what runs now; it is gone when the command ends.
#pragma once

#include "compiler/Progress.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

/// "running the source: 3 of 7 runs, about 12 s left".
std::string progressText(const ProgressEvent &event);

/// Draws what the callback is told, and counts what is left down, while stderr is a terminal that
/// can clear a line (TERM is not dumb); elsewhere the callback is empty. One at a time.
class ProgressLine {
public:
  ProgressLine();
  /// Clears the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  ProgressCallback callback();
};

/// Writes to stderr while no line is shown; it comes back when there is news. Any thread.
void aboveProgress(llvm::function_ref<void()> write);

/// For who ends the process: the line is cleared and comes back no more.
void endProgress();

} // namespace pipec

// A crash is handled like any internal error: it prints a message, leaves a reproducer and exits
// with 70. Hand-made because llvm/Support/Signals.h takes the signals of tools/cli/Signals.h as
// well, and CrashRecoveryContext goes on in the memory that the crash left.
//
//   process          SIGSEGV, SIGABRT ...      same process number, new image
//   ───────────────────────┤ exec of itself ├──────────────────────────────────────────
//   at any point            same arguments      removes unfinished output, reports, exits
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <string>

namespace pipec {

/// From now on a crash signal restarts this program with the same arguments. On the main thread
/// this includes a stack overflow. Does nothing in builds with sanitizers, which report more. Call
/// it in main before any other thread exists.
void handleCrashes(char **argv);

struct Crash {
  int signal = 0;   // 0: none
  std::string text; // "segmentation fault (signal 11)"
  /// A page of a mapped file could not be read: the file was truncated, or the disk failed.
  bool isOfFile() const;
};

/// The crash that caused this restart; none if a user started the program. Removes the unfinished
/// outputs of the crashed process.
const Crash &crashBefore();

/// After a crash: runs `body` in its own process, because it may crash again or hang, and waits for
/// it for at most five minutes. Otherwise runs it in this process.
void runInChild(llvm::function_ref<void()> body);

/// For the thread that handles signals: ends that process, so that it writes nothing more.
void killChild();

} // namespace pipec

// A crash is an internal error like any other: it is told in words, leaves a reproducer and exits
// with 70.
//
//   process          SIGSEGV, SIGABRT ...      same process number, new image
//   ───────────────────────┤ exec of itself ├──────────────────────────────────────────
//   whatever it did         same arguments      removes unfinished output, reports, exits
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <string>

namespace pipec {

/// From now on a signal of a crash starts this program again, with the same arguments. Of the main
/// thread also the end of its stack. Does nothing in builds with sanitizers, which tell more. Call
/// it in main before any other thread exists.
void handleCrashes(char **argv);

struct Crash {
  int signal = 0;   // 0: none
  std::string text; // "segmentation fault (signal 11)"
  /// A page of a mapped file could not be read: somebody made the file shorter, or the disk failed.
  bool isOfFile() const;
};

/// What ended the program that this one was started again for; none for a program that was started
/// by a user. Removes what that one had not finished.
const Crash &crashBefore();

/// After a crash: runs `body` in a process of its own, since it may crash again or not come to an
/// end, and waits for it, at most five minutes. Otherwise runs it here.
void runWhatMayCrash(llvm::function_ref<void()> body);

/// For the thread that handles signals: ends that process, so that it writes nothing more.
void endWhatMayCrash();

} // namespace pipec

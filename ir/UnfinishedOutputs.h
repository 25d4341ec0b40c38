// Output that is not complete yet: what goes away when the process is told to stop.
#pragma once

#include <mutex>
#include <set>
#include <string>

namespace pipec {

/// Temporary files and directories of this process. Hold `mutex` while making, publishing or
/// removing one; once `abandoned`, the process is ending and nothing more may be made or published.
struct UnfinishedOutputs {
  std::mutex mutex;
  std::set<std::string> paths;
  bool abandoned = false;
};

UnfinishedOutputs &unfinishedOutputs();

/// Removes a file, or a directory with what is in it; never follows a link.
void removeTree(const std::string &path);

/// Removes every unfinished output and lets none be made or published from then on: for the thread
/// that handles signals (not for a signal handler: it takes a lock). A publication in progress is
/// finished first.
void abandonUnfinishedOutputs();

} // namespace pipec

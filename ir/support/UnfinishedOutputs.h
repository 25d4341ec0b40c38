// Output that is not complete yet: what goes away when the process is told to stop.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <system_error>

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

/// A new directory that goes away with this object, and when the process is told to stop, unless it
/// was released. One thread at a time.
class UnfinishedDirectory {
public:
  UnfinishedDirectory() = default; // none
  UnfinishedDirectory(UnfinishedDirectory &&);
  UnfinishedDirectory &operator=(UnfinishedDirectory &&) = delete;
  ~UnfinishedDirectory();

  /// `name`, or name-1, name-2 ... where that is taken: by what a killed process with our number
  /// left, or by another writer of this one. Only on an object that has none. Errors: of mkdir;
  /// operation_canceled when the process is ending.
  std::error_code make(const std::string &name);
  const std::string &path() const { return path_; }
  /// Whether it is still there to be published, and not removed because the process is ending. Hold
  /// the mutex of unfinishedOutputs() from before asking until after release().
  bool isOpen() const;
  /// It has another name now, or belongs to someone else.
  void release();

private:
  std::string path_; // empty: none
};

/// Removes every unfinished output and lets none be made or published from then on: for the thread
/// that handles signals (not for a signal handler: it takes a lock). A publication in progress is
/// finished first.
void abandonUnfinishedOutputs();

} // namespace pipec

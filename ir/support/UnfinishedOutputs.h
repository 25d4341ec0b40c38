// Outputs that are not complete yet. They are removed if a signal ends the process. Hand-made
// because llvm::sys::RemoveFileOnSignal removes files only, not directories.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <system_error>

namespace pipec {

/// A set of paths, with a copy that the crash handler reads: the handler may neither lock nor
/// allocate, and a crash may come while the set changes. One thread at a time changes it.
class UnfinishedPaths {
public:
  void insert(const std::string &path);
  /// Whether it was there.
  bool erase(const std::string &path);
  bool contains(const std::string &path) const { return paths_.count(path) != 0; }
  bool empty() const { return paths_.empty(); }
  auto begin() const { return paths_.begin(); }
  auto end() const { return paths_.end(); }
  void clear();

  /// For a signal handler, in any state of the process. Leaves out paths of more than 4095
  /// characters, and any paths after the first 32. If another thread replaces a path meanwhile, the
  /// text may mix both.
  void forEachAfterCrash(llvm::function_ref<void(const char *)> use) const;

private:
  struct Copy {
    std::atomic<bool> isUsed = false;
    char text[4096];
  };
  std::set<std::string> paths_;
  std::array<Copy, 32> copies_;
};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Temporary files and directories of this process. Hold `mutex` while making, publishing or
/// removing one. Once `abandoned` is set, the process is ending and nothing may be made or
/// published.
struct UnfinishedOutputs {
  std::mutex mutex;
  UnfinishedPaths paths;
  bool abandoned = false;
  bool isDone = false; // what the process was started for is published
};

UnfinishedOutputs &unfinishedOutputs();

/// Removes a file, or a directory with its content. Never follows a link.
void removeTree(const std::string &path);

/// A new directory that is removed with this object, or when a signal ends the process, unless it
/// was released. One thread at a time.
class UnfinishedDirectory {
public:
  UnfinishedDirectory() = default; // none
  UnfinishedDirectory(UnfinishedDirectory &&);
  UnfinishedDirectory &operator=(UnfinishedDirectory &&) = delete;
  ~UnfinishedDirectory();

  /// Makes the directory `name`, or name-1, name-2 ... if that is taken by a killed process with
  /// our number or by another writer of this one. Call it only on an object without a directory.
  /// Errors: of mkdir; operation_canceled if the process is ending.
  std::error_code make(const std::string &name);
  const std::string &path() const { return path_; }
  /// Whether the directory still exists for publication, and was not removed because the process is
  /// ending. Hold the mutex of unfinishedOutputs() from this call until after release().
  bool isOpen() const;
  /// The directory has another name now, or another owner.
  void release();

private:
  std::string path_; // empty: none
};

/// Makes the directory and its missing parents, unless the process is ending: an
/// UnfinishedDirectory that was removed must not come back as the parent of a new one. Any thread.
/// Errors: of mkdir; operation_canceled if the process is ending.
std::error_code makeDirectories(const std::string &path);

/// Lets no output be made or published from then on, and returns true. If what the process was
/// started for is published and no other output is unfinished, it does nothing and returns false. A
/// publication in progress is finished first.
bool stopPublications();

/// Removes every unfinished output and lets none be made or published from then on: for the thread
/// that handles signals (not for a signal handler: it takes a lock). A publication in progress is
/// finished first.
void abandonUnfinishedOutputs();

} // namespace pipec

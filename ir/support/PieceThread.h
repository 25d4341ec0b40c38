// Work on a stream of bytes while somebody else makes it.
//
//   caller:        append  append  append ............ finish
//   other thread:          work    work   work   work
#pragma once

#include "llvm/ADT/StringRef.h"

#include <functional>
#include <future>
#include <memory>
#include <string>

namespace pipec {

/// Calls `work` with bytes in the order in which they came, on a thread of its own. Small pieces
/// come joined. How much waits is bounded: who appends faster than the work goes waits for it. Once
/// `work` has thrown, what is appended is dropped. One thread appends.
class PieceThread {
public:
  using Work = std::function<void(llvm::StringRef)>;
  explicit PieceThread(Work work);
  PieceThread(const PieceThread &) = delete;
  PieceThread &operator=(const PieceThread &) = delete;
  /// Waits until the work is done.
  ~PieceThread();

  /// Copies what is little, and waits until the rest is worked on.
  void append(llvm::StringRef bytes);
  /// Of bytes that stay as they are until finish(): a piece of its own, not copied.
  void appendStable(llvm::StringRef bytes);
  /// Waits until the work is done, and throws what it threw. Once, and nothing after it.
  void finish();

private:
  struct Queue;
  void pushJoined();

  std::shared_ptr<Queue> queue_;
  std::string joined_; // small pieces that are not in the queue yet
  std::future<void> done_;
};

} // namespace pipec

// Processes a stream of bytes while another thread produces it. Hand-made because the
// queues of LLVM's and LibTorch's thread pools have no bound.
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

/// Calls `work` with bytes in order, on its own thread. Small pieces are joined. The queue holds at
/// most `mostPieces`, the one in work included: a caller that appends faster than `work` runs has
/// to wait. After `work` throws,
/// appended bytes are dropped. One thread appends.
class PieceThread {
public:
  using Work = std::function<void(llvm::StringRef)>;
  explicit PieceThread(Work work, size_t mostPieces = 64);
  PieceThread(const PieceThread &) = delete;
  PieceThread &operator=(const PieceThread &) = delete;
  /// Waits until the work is done.
  ~PieceThread();

  /// Copies small pieces. For the rest it waits until `work` has processed them.
  void append(llvm::StringRef bytes);
  /// For bytes that do not change until finish(): one piece, not copied.
  void appendStable(llvm::StringRef bytes);
  /// Waits until the work is done, and rethrows its exception. Call it once, as the last call.
  void finish();

private:
  struct Queue;
  void pushJoined();

  std::shared_ptr<Queue> queue_;
  std::string joined_; // small pieces that are not in the queue yet
  std::future<void> done_;
};

} // namespace pipec

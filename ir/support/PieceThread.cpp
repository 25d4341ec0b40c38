#include "ir/support/PieceThread.h"

#include "ir/support/Llvm.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace pipec {

namespace {

constexpr size_t kJoinedBytes = size_t(64) << 10;

} // namespace

struct PieceThread::Queue {
  explicit Queue(size_t most) : mostPieces(most) {}

  struct Piece {
    std::string copy = {};      // or
    llvm::StringRef bytes = {}; // in memory that stays
  };

  void push(Piece piece) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over || pieces.size() < mostPieces; });
    if (over)
      return;
    pieces.push_back(std::move(piece));
    changed.notify_all();
  }

  void waitUntilDone() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over || pieces.empty(); });
  }

  void end() {
    std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }

  /// The work of the other thread.
  void workOnAll(const Work &work) {
    // Also when the work throws: otherwise other threads would wait for one that has ended.
    auto tell = atScopeEnd([&] {
      std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
    });
    // A piece stays in the queue until the work is done; only this thread takes any out.
    while (const Piece *piece = front()) {
      work(piece->bytes.empty() ? llvm::StringRef(piece->copy) : piece->bytes);
      std::lock_guard lock(mutex);
      pieces.pop_front();
      changed.notify_all();
    }
  }

  /// Null if there will be no more pieces.
  const Piece *front() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended || !pieces.empty(); });
    return pieces.empty() ? nullptr : &pieces.front(); // a deque's elements stay where they are
  }

  const size_t mostPieces;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> pieces;
  bool ended = false; // nothing more is pushed
  bool over = false;  // the other thread works on nothing any more
};

PieceThread::PieceThread(Work work, size_t mostPieces)
    : queue_(std::make_shared<Queue>(mostPieces)),
      done_(std::async(std::launch::async,
                       [queue = queue_, work = std::move(work)] { queue->workOnAll(work); })) {}

PieceThread::~PieceThread() {
  if (done_.valid())
    queue_->end(); // the future's own destructor waits
}

void PieceThread::append(llvm::StringRef bytes) {
  if (bytes.size() > kJoinedBytes) {
    appendStable(bytes);
    return queue_->waitUntilDone();
  }
  joined_.append(bytes.data(), bytes.size());
  if (joined_.size() >= kJoinedBytes)
    pushJoined();
}

void PieceThread::appendStable(llvm::StringRef bytes) {
  if (bytes.empty())
    return;
  pushJoined();
  queue_->push({.bytes = bytes});
}

void PieceThread::pushJoined() {
  if (!joined_.empty())
    queue_->push({.copy = std::exchange(joined_, {})});
}

void PieceThread::finish() {
  pushJoined();
  queue_->end();
  done_.get();
}

} // namespace pipec

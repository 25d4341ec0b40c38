#include "ir/plan/StreamDigest.h"

#include "ir/plan/Sha256.h"

#include <condition_variable>
#include <deque>

namespace pipec {

struct StreamDigest::Queue {
  struct Piece {
    std::string copy = {};      // or
    llvm::StringRef bytes = {}; // in memory that stays
    bool claimed = false;       // the digest of these bytes is ours to set
    bool last = false;
  };

  void push(Piece piece) {
    std::lock_guard lock(mutex);
    pieces.push_back(std::move(piece));
    changed.notify_all();
  }

  void waitUntilHashed() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return pieces.empty(); });
  }

  /// What the other thread does.
  std::string hashAll(StableBytes &stable) {
    Sha256 whole;
    for (;;) {
      // It stays in the queue until it is hashed; only this thread takes any out.
      const Piece &piece = front();
      if (piece.last)
        return whole.hex();
      whole.update(piece.copy);
      hashPiece(whole, piece, stable);
      std::lock_guard lock(mutex);
      pieces.pop_front();
      changed.notify_all();
    }
  }

  const Piece &front() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !pieces.empty(); });
    return pieces.front(); // a deque's elements stay where they are
  }

  static void hashPiece(Sha256 &whole, const Piece &piece, StableBytes &stable) {
    if (!piece.claimed)
      return whole.update(piece.bytes);
    Sha256 own;
    Sha256::updateBoth(whole, own, piece.bytes);
    stable.setDigest(piece.bytes, own.hex());
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> pieces;
};

StreamDigest::StreamDigest(std::shared_ptr<StableBytes> stable)
    : stable_(std::move(stable)), queue_(std::make_shared<Queue>()),
      digest_(std::async(std::launch::async,
                         [queue = queue_, known = stable_] { return queue->hashAll(*known); })) {}

StreamDigest::~StreamDigest() {
  if (digest_.valid())
    end();
}

void StreamDigest::append(llvm::StringRef bytes) {
  constexpr size_t kCopied = size_t(64) << 10;
  const bool stable = stable_->has(bytes);
  if (!stable && bytes.size() <= kCopied)
    return queue_->push({.copy = bytes.str()});
  queue_->push({.bytes = bytes, .claimed = stable_->claim(bytes)});
  if (!stable)
    queue_->waitUntilHashed();
}

std::future<std::string> StreamDigest::finish() {
  end();
  return std::move(digest_);
}

void StreamDigest::end() { queue_->push({.last = true}); }

} // namespace pipec

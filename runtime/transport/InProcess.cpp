#include "runtime/transport/InProcess.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "runtime/transport/Spin.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace pipec {

namespace {

struct Message {
  size_t number = 0;
  int64_t microBatch = 0;
  c10::IValue value;
  Fence ready; // in the sender's stream
};

/// A ring of `window` messages. Only the head's reader and the tail's writer wait.
struct Queue {
  Lane lane;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Message> ring;
  size_t head = 0;
  std::atomic<size_t> count = 0; // written under the mutex; read without it while spinning
};

/// A rank that runs whatever is ready waits here for its next message.
struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> changes = 0;
  std::atomic<bool> isWaiting = false;

  void change() {
    ++changes;
    if (!isWaiting)
      return;
    std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
  }
};

class InProcess : public Transport {
public:
  InProcess(const std::vector<Lane> &lanes, std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)), spin_(devices_.size()) {
    for (const Lane &lane : lanes) {
      queues_.push_back(std::make_unique<Queue>());
      queues_.back()->lane = lane;
      queues_.back()->ring.resize(std::max<size_t>(lane.window, 1));
    }
    for (size_t rank = 0; rank < devices_.size(); ++rank)
      watches_.push_back(std::make_unique<Watch>());
  }

  llvm::Error post(size_t, size_t, int64_t) override {
    return aborted_ ? abortError() : llvm::Error::success();
  }

  llvm::Error send(size_t lane, size_t number, int64_t microBatch, c10::IValue value) override {
    Queue &queue = *queues_.at(lane);
    Device &from = *devices_.at(queue.lane.from);
    Fence ready;
    TRY(guardTorchVoid(ExitCode::Other, "sending", [&] { ready = from.mark(); }));
    spinWhile([&] { return queue.count.load(std::memory_order_acquire) == queue.ring.size(); });
    {
      std::unique_lock<std::mutex> lock(queue.mutex);
      queue.changed.wait(lock, [&] { return aborted_ || queue.count < queue.ring.size(); });
      if (aborted_)
        return abortError();
      queue.ring[(queue.head + queue.count) % queue.ring.size()] = {
          number, microBatch, std::move(value), std::move(ready)};
      ++queue.count;
    }
    queue.changed.notify_all();
    watches_[queue.lane.to]->change();
    return llvm::Error::success();
  }

  llvm::Expected<c10::IValue> take(size_t lane, size_t number, int64_t microBatch) override {
    Queue &queue = *queues_.at(lane);
    Message message;
    spinWhile([&] { return queue.count.load(std::memory_order_acquire) == 0; });
    {
      std::unique_lock<std::mutex> lock(queue.mutex);
      queue.changed.wait(lock, [&] { return aborted_ || queue.count > 0; });
      if (aborted_)
        return abortError();
      Message &front = queue.ring[queue.head];
      if (front.number != number || front.microBatch != microBatch)
        return failf(ExitCode::Internal,
                     "lane {} from rank {} to rank {}: expected message {} of micro-batch {}, got "
                     "message {} of micro-batch {}",
                     lane, queue.lane.from, queue.lane.to, number, microBatch, front.number,
                     front.microBatch);
      message = std::move(front);
      front = Message();
      queue.head = (queue.head + 1) % queue.ring.size();
      --queue.count;
    }
    queue.changed.notify_all();
    watches_[queue.lane.from]->change();
    const Device &from = *devices_.at(queue.lane.from);
    Device &to = *devices_.at(queue.lane.to);
    if (!from.hasStreams() && !to.hasStreams())
      return std::move(message.value);
    return guardTorch(ExitCode::Other, "taking", [&] {
      to.waitFor(message.ready);
      return to.bring(std::move(message.value), from);
    });
  }

  bool holds(size_t lane) const override {
    return queues_.at(lane)->count.load(std::memory_order_acquire) > 0;
  }

  uint64_t changes(size_t rank) const override { return watches_.at(rank)->changes; }

  llvm::Error waitForChange(size_t rank, uint64_t seen) override {
    Watch &watch = *watches_.at(rank);
    spinWhile([&] { return watch.changes == seen; });
    {
      std::unique_lock<std::mutex> lock(watch.mutex);
      watch.isWaiting = true; // first: a thread that changes the count later sees this
      watch.changed.wait(lock, [&] { return aborted_ || watch.changes != seen; });
      watch.isWaiting = false;
    }
    return aborted_ ? abortError() : llvm::Error::success();
  }

  void abort(const ErrorText &error) override {
    {
      std::lock_guard<std::mutex> lock(errorMutex_);
      if (aborted_)
        return;
      error_ = error;
      aborted_ = true;
    }
    for (auto &queue : queues_) {
      // A thread that read the flag before it was set is asleep once we own the mutex.
      std::lock_guard<std::mutex> lock(queue->mutex);
      queue->changed.notify_all();
    }
    for (auto &watch : watches_) {
      std::lock_guard<std::mutex> lock(watch->mutex);
      watch->changed.notify_all();
    }
  }

  void reset() override {
    for (auto &queue : queues_) {
      std::lock_guard<std::mutex> lock(queue->mutex);
      for (Message &message : queue->ring)
        message = Message();
      queue->head = 0;
      queue->count = 0;
    }
    std::lock_guard<std::mutex> lock(errorMutex_);
    aborted_ = false;
  }

private:
  template <typename Condition> void spinWhile(Condition &&waits) const {
    spin_.whileTrue([&] { return !aborted_ && waits(); });
  }

  llvm::Error abortError() {
    std::lock_guard<std::mutex> lock(errorMutex_);
    return makeError(error_.code, error_.message, error_.help);
  }

  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Watch>> watches_; // by rank
  std::vector<std::shared_ptr<Device>> devices_;
  Spin spin_;
  std::atomic<bool> aborted_ = false;
  std::mutex errorMutex_;
  ErrorText error_{ExitCode::Other, "", ""};
};

} // namespace

std::unique_ptr<Transport>
makeInProcessTransport(const std::vector<Lane> &lanes,
                       const std::vector<std::shared_ptr<Device>> &devices) {
  return std::make_unique<InProcess>(lanes, devices);
}

} // namespace pipec

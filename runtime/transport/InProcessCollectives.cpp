#include "runtime/transport/InProcessCollectives.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "runtime/transport/Spin.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace pipec {

namespace {

/// A call in progress: complete when every member gave its values. The next call of the group
/// starts only when every member has fetched the values of this one.
struct Meeting {
  std::vector<size_t> ranks;
  GatheredValues values;    // empty lists between calls: their memory
  std::vector<Fence> ready; // of each list, in its rank's stream
  size_t given = 0, fetched = 0;

  void end() {
    for (std::vector<c10::IValue> &each : values)
      each.clear();
    given = fetched = 0;
  }
};

class InProcessCollectives : public Collectives {
public:
  InProcessCollectives(std::vector<std::vector<size_t>> groups,
                       std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)), spin_(devices_.size()) {
    for (std::vector<size_t> &ranks : groups)
      meetings_.push_back({std::move(ranks), {}, {}, 0, 0});
    for (Meeting &meeting : meetings_) {
      meeting.values.resize(meeting.ranks.size());
      meeting.ready.resize(meeting.ranks.size());
    }
  }

  llvm::Error gather(size_t group, size_t rank, llvm::ArrayRef<c10::IValue> values,
                     GatheredValues &all) override {
    Fence ready;
    TRY(guardTorchVoid(ExitCode::Other, "a collective",
                       [&] { ready = devices_.at(rank)->mark(); }));
    std::unique_lock<std::mutex> lock(mutex_);
    Meeting &meeting = meetings_.at(group);
    const size_t size = meeting.ranks.size();
    const size_t member =
        static_cast<size_t>(llvm::find(meeting.ranks, rank) - meeting.ranks.begin());
    wait(lock, [&] { return error_ || meeting.given < size; }); // the last call is over
    if (error_)
      return makeError(error_->code, error_->message, error_->help);
    meeting.values.at(member).assign(values.begin(), values.end());
    meeting.ready.at(member) = std::move(ready);
    if (++meeting.given == size)
      noteChange();
    wait(lock, [&] { return error_ || meeting.given == size; });
    if (error_)
      return makeError(error_->code, error_->message, error_->help);
    all = meeting.values;
    const llvm::SmallVector<Fence, 8> fences(meeting.ready.begin(), meeting.ready.end());
    if (++meeting.fetched == size) {
      meeting.end();
      noteChange();
    }
    lock.unlock();
    return receive(meeting.ranks, rank, fences, all);
  }

  void abort(const ErrorText &error) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!error_)
      error_ = error;
    noteChange();
  }

  void reset() override {
    std::lock_guard<std::mutex> lock(mutex_);
    error_.reset();
    for (Meeting &meeting : meetings_)
      meeting.end();
  }

private:
  /// With the mutex.
  void noteChange() {
    ++changes_;
    changed_.notify_all();
  }

  template <typename Condition> void wait(std::unique_lock<std::mutex> &lock, Condition &&until) {
    if (until())
      return;
    const uint64_t seen = changes_;
    lock.unlock();
    spin_.whileTrue([&] { return changes_ == seen; });
    lock.lock();
    changed_.wait(lock, until);
  }

  /// Makes the values of other members usable on the current stream.
  llvm::Error receive(const std::vector<size_t> &ranks, size_t rank, llvm::ArrayRef<Fence> fences,
                      GatheredValues &all) {
    Device &to = *devices_.at(rank);
    return guardTorchVoid(ExitCode::Other, "a collective", [&] {
      for (size_t i = 0; i < ranks.size(); ++i) {
        const Device &from = *devices_.at(ranks[i]);
        if (ranks[i] == rank || (!from.hasStreams() && !to.hasStreams()))
          continue;
        to.waitFor(fences[i]);
        for (c10::IValue &value : all[i])
          value = to.bring(std::move(value), from);
      }
    });
  }

  std::vector<std::shared_ptr<Device>> devices_; // per rank
  Spin spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint64_t> changes_ = 0;
  std::vector<Meeting> meetings_;
  std::optional<ErrorText> error_;
};

} // namespace

std::unique_ptr<Collectives>
makeInProcessCollectives(std::vector<std::vector<size_t>> groups,
                         std::vector<std::shared_ptr<Device>> devices) {
  return std::make_unique<InProcessCollectives>(std::move(groups), std::move(devices));
}

} // namespace pipec

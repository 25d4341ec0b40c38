#include "runtime/transport/InProcessCollectives.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/transport/Spin.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace pipec {

namespace {

/// A call in progress: complete when every member gave its value. The next call of the group starts
/// only when every member has fetched the values of this one.
struct Meeting {
  std::vector<size_t> ranks;
  std::vector<c10::IValue> values;
  std::vector<Fence> ready; // of each value, in its rank's stream
  size_t given = 0, fetched = 0;
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

  llvm::Expected<std::vector<c10::IValue>> gather(size_t group, size_t rank,
                                                  c10::IValue value) override {
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
    meeting.values.at(member) = std::move(value);
    meeting.ready.at(member) = std::move(ready);
    if (++meeting.given == size)
      noteChange();
    wait(lock, [&] { return error_ || meeting.given == size; });
    if (error_)
      return makeError(error_->code, error_->message, error_->help);
    std::vector<c10::IValue> all = meeting.values;
    const std::vector<Fence> fences = meeting.ready;
    if (++meeting.fetched == size) {
      for (c10::IValue &each : meeting.values)
        each = c10::IValue();
      meeting.given = meeting.fetched = 0;
      noteChange();
    }
    lock.unlock();
    TRY(receive(meeting.ranks, rank, fences, all));
    return all;
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
    for (Meeting &meeting : meetings_) {
      meeting.given = meeting.fetched = 0;
      for (c10::IValue &each : meeting.values)
        each = c10::IValue();
    }
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
  llvm::Error receive(const std::vector<size_t> &ranks, size_t rank,
                      const std::vector<Fence> &fences, std::vector<c10::IValue> &all) {
    Device &to = *devices_.at(rank);
    return guardTorchVoid(ExitCode::Other, "a collective", [&] {
      for (size_t i = 0; i < ranks.size(); ++i) {
        const Device &from = *devices_.at(ranks[i]);
        if (ranks[i] == rank || (!from.hasStreams() && !to.hasStreams()))
          continue;
        to.waitFor(fences[i]);
        all[i] = to.bring(std::move(all[i]), from);
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

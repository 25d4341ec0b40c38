#include "tests/runtime/NotedMemory.h"

#include "ir/support/Check.h"
#include "ir/support/Try.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>

namespace pipec {

namespace {

constexpr int64_t kNumberBytes = 4;

int64_t steadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// Notes every piece of memory of tensors while it is LibTorch's allocator.
class NotingAllocator final : public c10::Allocator {
public:
  static NotingAllocator &get() {
    static NotingAllocator *const it = new NotingAllocator; // tensors may outlive main
    return *it;
  }
  void begin() {
    base_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this, kPriority);
    std::lock_guard<std::mutex> lock(mutex_);
    first_ = pieces_.size();
  }
  /// Since begin().
  std::vector<Piece> end() {
    c10::SetCPUAllocator(base_, kPriority);
    std::lock_guard<std::mutex> lock(mutex_);
    return {pieces_.begin() + static_cast<ptrdiff_t>(first_), pieces_.end()};
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto own = std::make_unique<Own>();
    own->memory = base_->allocate(bytes);
    void *const memory = own->memory.get();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      own->piece = &pieces_.emplace_back();
      *own->piece = {.bytes = static_cast<int64_t>(bytes),
                     .by = std::this_thread::get_id(),
                     .freedBy = {},
                     .from = steadyNs()};
    }
    return {memory, own.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

private:
  struct Own {
    c10::DataPtr memory;
    Piece *piece = nullptr;
  };
  static constexpr uint8_t kPriority = 100; // not less than that of StreamMonitor

  static void release(void *context) {
    const std::unique_ptr<Own> own(static_cast<Own *>(context));
    std::lock_guard<std::mutex> lock(get().mutex_);
    own->piece->freedBy = std::this_thread::get_id();
    own->piece->to = steadyNs();
  }

  c10::Allocator *base_ = nullptr;
  std::mutex mutex_;
  std::deque<Piece> pieces_; // addresses stay
  size_t first_ = 0;
};

/// Notes the time of every fence and the thread of its rank. Inputs are counted nowhere.
class NotingMemory final : public OwnMemory {
public:
  Fence mark() override {
    thread = std::this_thread::get_id();
    marks.push_back(steadyNs());
    return {.hostNs = marks.back(), .event = {}};
  }

  std::vector<int64_t> marks;
  std::thread::id thread;
};

std::vector<std::shared_ptr<NotingMemory>> &madeMemories() {
  static std::vector<std::shared_ptr<NotingMemory>> devices;
  return devices;
}

/// The ops of a rank before its first collective: F B I W R mark their begin and their end, SEND
/// and TAKE once.
std::vector<NotedOp> notedOps(const std::vector<Op> &ops, const std::vector<int64_t> &marks) {
  std::vector<NotedOp> noted;
  auto next = marks.begin();
  for (const Op &op : ops) {
    const bool computes = isCompute(op.kind);
    if (!computes && op.kind != OpKind::Post && op.kind != OpKind::Send && op.kind != OpKind::Take)
      break;
    NotedOp &one = noted.emplace_back();
    one.op = op;
    if (op.kind == OpKind::Post) // it has no fence, and no memory
      continue;
    PIPEC_ASSERT(marks.end() - next >= (computes ? 2 : 1), "a fence for every op");
    one.begin = one.until = *next++;
    if (computes)
      one.until = *next++;
  }
  return noted;
}

/// Autograd may add to a gradient that a rank received, and what the rank sends on is that sum, in
/// the memory of what it received. That memory counts as its own until the backward has run, and as
/// sent from there on.
void endReceivedGradients(std::vector<Piece> &pieces, const std::vector<NotedOp> &ops,
                          std::thread::id thread) {
  int64_t before = 0; // the end of the op before
  for (auto take = ops.begin(); take != ops.end(); ++take) {
    if (take->op.kind == OpKind::Take && take->op.payload == Payload::Gradient) {
      const auto reader = std::find_if(take, ops.end(), [&](const NotedOp &noted) {
        return (noted.op.kind == OpKind::Backward || noted.op.kind == OpKind::InputGrad) &&
               noted.op.microBatch == take->op.microBatch;
      });
      for (Piece &piece : pieces)
        if (reader != ops.end() && piece.by == thread && piece.freedBy != thread &&
            before < piece.from && piece.from < take->begin) {
          piece.freedBy = thread;
          piece.to = reader->until;
        }
    }
    before = std::max(before, take->until);
  }
}

/// The largest sum of all changes up to one of them; at least 0.
int64_t largestSum(std::vector<std::pair<int64_t, int64_t>> changes /*time, bytes*/) {
  llvm::sort(changes);
  int64_t sum = 0, largest = 0;
  for (const auto &[time, bytes] : changes)
    largest = std::max(largest, sum += bytes);
  return largest;
}

/// Walks through the ops of a stage that has a rank of its own.
void noteStage(const NotedStep &step, size_t stage, const Plan &plan, ProgramCosts &costs) {
  int64_t gradients = 0, ran = 0; // bytes received since F; when F began
  StageCosts &bytes = costs.stages[stage];
  OpRoom &room = costs.room[stage];
  auto bytesOf = [&](llvm::function_ref<bool(const Piece &)> isOne) {
    int64_t sum = 0;
    for (const Piece &piece : step.pieces)
      if (piece.by == step.threads[stage] && piece.bytes > kNumberBytes && isOne(piece))
        sum += piece.bytes;
    return sum;
  };
  for (const NotedOp &noted : step.ranks[stage]) {
    const int64_t held = step.heldBefore(stage, noted), most = step.mostDuring(stage, noted);
    switch (noted.op.kind) {
    case OpKind::Take:
      if (ran > 0)
        gradients += costs.bytesOf(plan, noted.op.channel);
      break;
    case OpKind::Forward:
      ran = noted.begin;
      room.forward = most;
      for (size_t c = 0; c < plan.channels.size(); ++c)
        if (plan.channels[c].from.stage == stage)
          costs.sentBytes[c] = std::min(costs.bytesOf(plan, c), bytesOf([&](const Piece &piece) {
                                          return noted.begin <= piece.from &&
                                                 piece.from < noted.until &&
                                                 piece.freedBy != piece.by;
                                        }));
      break;
    case OpKind::Backward:
      for (size_t c = 0; c < plan.channels.size(); ++c)
        if (llvm::any_of(plan.channels[c].to, [&](PortRef to) { return to.stage == stage; }))
          costs.keptByReader[c] = std::min(costs.bytesOf(plan, c), bytesOf([&](const Piece &piece) {
                                             return piece.from < ran && noted.begin < piece.to &&
                                                    piece.freedBy == piece.by;
                                           }));
      room.backward = most;
      bytes.heldByForward = held - gradients;
      break;
    case OpKind::InputGrad:
      room.inputGrad = most;
      break;
    case OpKind::WeightGrad:
      room.weightGrad = most;
      bytes.freedByInputGrad = bytes.heldByForward - held;
      break;
    default:
      break;
    }
  }
}

} // namespace

std::vector<Piece> notedPieces(llvm::function_ref<void()> body) {
  NotingAllocator::get().begin();
  body();
  return NotingAllocator::get().end();
}

OwnMemories::OwnMemories()
    : devices_([](const std::string &) -> std::shared_ptr<Device> {
        madeMemories().push_back(std::make_shared<NotingMemory>());
        return madeMemories().back();
      }) {
  madeMemories().clear();
}

int64_t NotedStep::heldBefore(size_t rank, const NotedOp &op) const {
  int64_t held = 0;
  for (const Piece &piece : pieces)
    if (piece.bytes > kNumberBytes && piece.by == threads[rank] && piece.freedBy == threads[rank] &&
        piece.from <= op.begin && op.begin < piece.to)
      held += piece.bytes;
  return held;
}

int64_t NotedStep::mostDuring(size_t rank, const NotedOp &op) const {
  std::vector<std::pair<int64_t, int64_t>> changes;
  auto isDuring = [&](int64_t time) { return op.begin < time && time < op.until; };
  for (const Piece &piece : pieces) {
    if (piece.bytes <= kNumberBytes || piece.by != threads[rank])
      continue;
    if (isDuring(piece.from))
      changes.emplace_back(piece.from, piece.bytes);
    if (isDuring(piece.to) && piece.freedBy == threads[rank])
      changes.emplace_back(piece.to, -piece.bytes);
  }
  return largestSum(std::move(changes));
}

int64_t NotedStep::most(size_t rank) const {
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const Piece &piece : pieces)
    if (piece.by == threads[rank]) {
      changes.emplace_back(piece.from, piece.bytes);
      changes.emplace_back(piece.to, -piece.bytes);
    }
  return largestSum(std::move(changes));
}

llvm::Expected<NotedStep> noteStep(Pipeline &pipeline, const std::vector<c10::IValue> &batch) {
  for (const std::shared_ptr<NotingMemory> &device : madeMemories())
    device->marks.clear();
  NotedStep step;
  std::optional<llvm::Expected<TrainedStep>> done;
  step.pieces = notedPieces([&] { done.emplace(pipeline.step(batch)); });
  TRY(done->takeError());
  step.trace = TRY(pipeline.trace());
  const std::vector<std::vector<Op>> &ranks = step.trace.program.ranks;
  PIPEC_ASSERT(ranks.size() == madeMemories().size(), "a device for every rank");
  for (size_t r = 0; r < ranks.size(); ++r) {
    step.threads.push_back(madeMemories()[r]->thread);
    step.ranks.push_back(notedOps(ranks[r], madeMemories()[r]->marks));
    endReceivedGradients(step.pieces, step.ranks[r], step.threads[r]);
  }
  return step;
}

ProgramCosts notedCosts(const Plan &plan, const NotedStep &whole, const NotedStep &split) {
  ProgramCosts costs;
  costs.takesAllocate = true;
  costs.stages.assign(plan.stages.size(), {.forward = 1, .inputGrad = 1, .weightGrad = 1});
  costs.room.resize(plan.stages.size());
  costs.sentBytes.assign(plan.channels.size(), 0);
  costs.keptByReader.assign(plan.channels.size(), 0);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    noteStage(whole, s, plan, costs);
    noteStage(split, s, plan, costs);
  }
  return costs;
}

} // namespace pipec

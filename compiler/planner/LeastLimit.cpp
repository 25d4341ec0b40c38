#include "compiler/planner/LeastLimit.h"

#include "compiler/planner/Bounds.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

namespace pipec {

namespace {

constexpr double kSeconds = 10;     // of WorkClock, beyond the examined pipelines
constexpr int64_t kFirstStep = 100; // the first decrease is this fraction of the limit
constexpr int64_t kLarger = 2,
                  kSmaller = 8; // factors of the next step, after a success and a failure
constexpr int64_t kProbes =
    16; // parts of the range between a limit that is too small and one that suffices

int64_t smallestMemory(const TrainingProblem &problem) {
  int64_t least = INT64_MAX;
  for (size_t r = 0; r < problem.ranks; ++r)
    if (const int64_t bytes = problem.memoryOf(r))
      least = std::min(least, bytes);
  return least;
}

bool areDevicesAlike(const TrainingProblem &problem) {
  bool alike = true;
  for (size_t r = 1; r < problem.ranks; ++r)
    alike &= problem.memoryOf(r) == problem.memoryOf(0);
  return alike;
}

void raiseMemory(TrainingProblem &problem, int64_t bytes) {
  if (problem.memoryLimit)
    problem.memoryLimit = std::max(problem.memoryLimit, bytes);
  for (ClusterDevice &device : problem.cluster.devices)
    if (device.memoryBytes)
      device.memoryBytes = std::max(device.memoryBytes, bytes);
}

/// The largest need of a device whose memory is too small for it; 0: all have enough.
int64_t memoryToRaiseTo(const TrainingProblem &problem, const ScheduleCandidate &candidate) {
  int64_t most = 0;
  for (size_t r = 0; r < problem.ranks; ++r) {
    const int64_t need = candidate.needBytes[r] * problem.sharing(r), has = problem.memoryOf(r);
    if (has && need > has)
      most = std::max(most, need);
  }
  return most;
}

std::string nameOf(const TrainingPoint &point, const ScheduleCandidate &candidate) {
  return fmt::format("{}, {}, {}{}", candidate.schedule,
                     counted(point.boundaries.size() + 1, "stage"),
                     counted(static_cast<size_t>(point.microBatches), "micro-batch"),
                     llvm::is_contained(candidate.recompute, true) ? ", with recompute" : "");
}

class LimitSearch {
public:
  using Search = llvm::function_ref<llvm::Expected<JointOutcome>(const JointRequest &)>;
  LimitSearch(const JointRequest &request, MemoryNeed known, Search search)
      : request_(request), less_(request), search_(search),
        clock_(std::min(kSeconds, request.seconds), TimeCount::Work),
        tooLittle_(smallestMemory(request.problem)), known_(std::move(known)) {}

  llvm::Expected<JointOutcome> run() {
    for (bool again = true; again;) {
      TRY(descend());
      bool less = TRY(probe());
      again = less;
    }
    if (fits_)
      return std::move(*fits_);
    // At this limit the search may find a faster pipeline than the smallest one seen so far.
    if (!isFound_ && !clock_.passed()) {
      llvm::Expected<JointOutcome> found = searchWith(known_.bytes);
      if (found)
        known_.what = needIn(*found).what;
      else // the smallest pipeline that is known remains the answer
        llvm::consumeError(found.takeError());
    }
    return nothingFits(request_, known_);
  }

private:
  llvm::Error descend() {
    for (int64_t step = 1; canBeLess();) {
      const int64_t bytes = std::max(known_.bytes - step, tooLittle_ + 1);
      const bool isLast = bytes == known_.bytes - 1;
      bool found = TRY(lowerTo(bytes));
      if (found)
        step = step > 1 ? kLarger * step : known_.bytes / kFirstStep + 1;
      else if (isLast)
        break;
      else
        step = std::max<int64_t>(1, step / kSmaller);
    }
    return llvm::Error::success();
  }

  /// If devices differ, a search with a larger limit may fail where one with a smaller limit
  /// succeeds: the first ranks then have much memory and take stages so large that too few
  /// operators are left for the other ranks.
  llvm::Expected<bool> probe() {
    if (areDevicesAlike(request_.problem))
      return false;
    const int64_t range = known_.bytes - tooLittle_;
    for (int64_t i = 1; i < kProbes && range > kProbes && canBeLess(); ++i) {
      llvm::Expected<bool> found = lowerTo(tooLittle_ + range / kProbes * i);
      if (!found || *found)
        return found;
    }
    return false;
  }

  bool canBeLess() const { return !fits_ && known_.bytes > tooLittle_ + 1 && !clock_.passed(); }

  /// Searches with this limit. If a pipeline fits, `known_` becomes the limit or its smaller need.
  llvm::Expected<bool> lowerTo(int64_t bytes) {
    llvm::Expected<JointOutcome> found = searchWith(bytes);
    if (!found) {
      ErrorText why = describe(found.takeError());
      if (why.code != ExitCode::NoPlan)
        return makeError(why.code, why.message, why.help);
      return false;
    }
    const MemoryNeed need = needIn(*found);
    if (need.bytes == 0) {
      fits_ = std::move(*found);
      return true;
    }
    known_ = {bytes, need.what};
    isFound_ = true;
    // The pipeline needs less than the limit. With its need as the limit the search examines other
    // cuts, so that limit counts only if the search succeeds with it too.
    if (need.bytes < bytes) {
      llvm::Expected<JointOutcome> again = searchWith(need.bytes);
      if (again)
        known_ = {need.bytes, needIn(*again).what};
      else
        llvm::consumeError(again.takeError()); // `bytes` remains, with which it succeeded
    }
    return true;
  }

  llvm::Expected<JointOutcome> searchWith(int64_t bytes) {
    less_.problem = request_.problem;
    raiseMemory(less_.problem, bytes);
    less_.seconds = std::max(0.0, clock_.limit() - clock_.elapsed());
    return search_(less_);
  }

  MemoryNeed needIn(const JointOutcome &outcome) const {
    const ScheduleCandidate &best = outcome.search.best();
    return {memoryToRaiseTo(request_.problem, best), nameOf(outcome.best(), best)};
  }

  const JointRequest &request_;
  JointRequest less_;
  const Search search_;
  const Deadline clock_;
  const int64_t tooLittle_; // a limit with which nothing fits
  MemoryNeed known_;
  bool isFound_ = false; // the search succeeded with the limit `known_`
  std::optional<JointOutcome> fits_;
};

} // namespace

MemoryNeed needOf(const TrainingProblem &problem, const TrainingPoint &point,
                  const ScheduleCandidate &candidate, int64_t bytesOfRank) {
  return {bytesOfRank * problem.sharing(0),
          nameOf(point, candidate)}; // rank 0 shares its device with the most ranks
}

bool areRanksAlike(const TrainingProblem &problem) {
  bool alike = areDevicesAlike(problem);
  for (size_t r = 1; r < problem.ranks; ++r)
    alike &= problem.sharing(r) == problem.sharing(0);
  return alike;
}

/// The bytes of weights, gradients and optimizer states in the largest part without a place for a
/// cut.
static int64_t largestPart(const TrainingStages &stages) {
  double largest = 0;
  size_t begin = 0;
  for (const size_t place : stages.places()) {
    largest = std::max(largest, stages.fixedBytes(begin, place));
    begin = place;
  }
  return static_cast<int64_t>(std::max(largest, stages.fixedBytes(begin, stages.operators())));
}

/// The help of the error: names only changes that reduce the memory of this model and this request.
static std::string helpWithMemory(const JointRequest &request,
                                  llvm::function_ref<std::string(int64_t)> text) {
  const TrainingStages stages(request.problem);
  if (const int64_t part = largestPart(stages); part > smallestMemory(request.problem))
    return fmt::format("raise the memory limit: a part of the model that cannot be cut needs {} "
                       "for its weights, gradients and optimizer states",
                       text(part));
  std::string help = "raise the memory limit";
  if (stages.places().size() + 1 > request.problem.ranks)
    help += ", or use more ranks, each on a device of its own";
  if (!request.recompute.isAuto() && request.recompute.choice != RecomputeChoice::Always)
    help += ", or --recompute auto";
  if (request.problem.table.batch > 1)
    help += ", or compile with fewer samples in --inputs, for smaller micro-batches";
  return help;
}

llvm::Error nothingFits(const JointRequest &request, const MemoryNeed &need) {
  auto text = [&](int64_t bytes) {
    return request.memoryText ? request.memoryText(bytes) : exactBytes(bytes);
  };
  return makeError(ExitCode::NoPlan,
                   fmt::format("no pipeline fits: expected at least {} per device ({}), got {}{}",
                               text(need.bytes), need.what, text(smallestMemory(request.problem)),
                               areDevicesAlike(request.problem) ? "" : " on the smallest"),
                   helpWithMemory(request, text));
}

llvm::Expected<JointOutcome>
searchBelow(const JointRequest &request, MemoryNeed known,
            llvm::function_ref<llvm::Expected<JointOutcome>(const JointRequest &)> search) {
  return LimitSearch(request, std::move(known), search).run();
}

} // namespace pipec

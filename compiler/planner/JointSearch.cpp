#include "compiler/planner/JointSearch.h"

#include "compiler/planner/Bounds.h"
#include "compiler/planner/LeastLimit.h"
#include "compiler/planner/TrainingCuts.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace pipec {

namespace {

constexpr size_t kMostPoints = 4000;      // of which every one is looked at
constexpr size_t kMostSearched = 6;       // for which schedules are made that look at costs
constexpr size_t kMostSearchedOfAll = 60; // the same where every cut is looked at
constexpr size_t kMostSmallest = 8;       // that are looked at for the least memory
constexpr size_t kMostMoved = 300;    // pipelines tried while boundaries are moved; with schedules
constexpr size_t kMostMovedSlow = 40; // that look at costs
constexpr size_t kSteps[] = {1, 2, 4, 8};
constexpr double kLeastSeconds = 0.5;       // for what a pipeline needs
constexpr size_t kQuickActions = 50'000;    // that such schedules play
constexpr size_t kRefinedActions = 200'000; // the same for the best pipeline

class JointSearch {
public:
  explicit JointSearch(const JointRequest &request)
      : request_(request), stages_(request.problem), deadline_(request.seconds, TimeCount::Work),
        search_(optionsOf(request)) {}

  llvm::Expected<JointOutcome> run() {
    TRY(listPoints());
    TRY(tryPatterns());
    TRY(trySearched());
    if (!result_.everyCut)
      TRY(moveBoundaries());
    if (!search_.best() && request_.least == LeastWanted::None)
      return makeError(ExitCode::NoPlan, "no pipeline fits");
    if (!search_.best())
      return nothingFits();
    TRY(search_.add(refined(), ScheduleEffort::Searched));
    result_.search = TRY(search_.take());
    return finished(result_.search.complete && !movesCutShort_);
  }

private:
  JointOutcome finished(bool complete) {
    result_.search.complete = complete;
    std::set<size_t> pipelines;
    for (const ScheduleCandidate &candidate : result_.search.candidates)
      pipelines.insert(candidate.work->tag);
    result_.pipelines = pipelines.size();
    PIPEC_ASSERT(result_.lowerBound <= result_.search.run.makespan,
                 "a pipeline is as fast as no pipeline can be");
    return std::move(result_);
  }

  static SearchOptions optionsOf(const JointRequest &request) {
    SearchOptions options;
    options.schedule = request.schedule;
    options.recompute = request.recompute;
    options.seconds = request.seconds;
    options.memoryText = request.memoryText;
    return options;
  }

  std::vector<Tie::Mode> tiedModes(size_t stages) const {
    if (request_.tied)
      return {*request_.tied};
    if (!stages_.sharesFreely() || stages < 2)
      return {Tie::Mode::Replicate};
    return {Tie::Mode::Replicate, Tie::Mode::Transmit};
  }

  std::vector<TrainingShape> shapes(const std::vector<MicroBatching> &ways) const {
    std::vector<TrainingShape> shapes;
    for (size_t chunks : request_.chunks)
      for (Placement placement : {Placement::Loop, Placement::V}) {
        if (placement == Placement::V && chunks != 2)
          continue;
        if (chunks * request_.problem.ranks > stages_.places().size() + 1)
          continue;
        for (const MicroBatching &way : ways)
          shapes.push_back({placement, chunks, way.microBatches, way.share});
      }
    return shapes;
  }

  llvm::Error listPoints() {
    const std::vector<TrainingShape> all = shapes(request_.microBatchings);
    if (all.empty()) {
      if (request_.enoughPlaces)
        TRY(request_.enoughPlaces(fewestCuts()));
      return makeError(
          ExitCode::Usage,
          fmt::format("expected a model with room for at least {} between its operators, got {}",
                      counted(fewestCuts(), "cut"), stages_.places().size()),
          "use fewer ranks or fewer stages");
    }
    size_t ways = 0;
    for (const TrainingShape &shape : all)
      ways += countCuts(stages_.places().size(), cutsOf(shape), kMostPoints) *
              tiedModes(cutsOf(shape) + 1).size();
    result_.everyCut = ways <= kMostPoints;
    for (const TrainingShape &shape : all)
      if (result_.everyCut)
        addPoints(shape, everyCut(stages_.places(), cutsOf(shape)));
      else
        addPoints(shape, promisingCuts(stages_, shape, /*byLimit=*/false));
    anyLimit_ = result_.points.size();
    if (!result_.everyCut && stages_.limitOf(0))
      for (const TrainingShape &shape : all)
        addPoints(shape, promisingCuts(stages_, shape, /*byLimit=*/true));
    int64_t least = INT64_MAX;
    for (const TrainingShape &shape : all)
      least = std::min(least, anyCutLowerBound(stages_, shape));
    if (request_.smallest)
      for (const TrainingShape &shape : shapes({*request_.smallest}))
        least = std::min(least, anyCutLowerBound(stages_, shape));
    else if (result_.everyCut && !bounds_.empty())
      least = std::max(least, *std::min_element(bounds_.begin(), bounds_.end()));
    result_.lowerBound = least;
    return llvm::Error::success();
  }

  size_t fewestCuts() const {
    return *std::min_element(request_.chunks.begin(), request_.chunks.end()) *
               request_.problem.ranks -
           1;
  }
  size_t cutsOf(const TrainingShape &shape) const {
    return shape.chunks * request_.problem.ranks - 1;
  }

  void addPoints(const TrainingShape &shape, const std::vector<Boundaries> &cuts) {
    for (const Boundaries &boundaries : cuts)
      for (Tie::Mode mode : tiedModes(boundaries.size() + 1)) {
        TrainingPoint point{shape.placement,    shape.chunks, boundaries,
                            shape.microBatches, shape.share,  mode};
        if (result_.everyCut || !llvm::is_contained(result_.points, point))
          addPoint(std::move(point));
      }
  }

  void addPoint(TrainingPoint point) {
    const StagedWork work = stages_.workOf(point);
    bounds_.push_back(lowerBoundOf(work));
    const std::vector<int64_t> bytes = TrainingStages::leastBytes(work);
    bool hopeless = false;
    for (size_t r = 0; r < work.limitBytes.size(); ++r)
      hopeless |= bytes[r] > work.limitBytes[r];
    leastBytes_.push_back(*std::max_element(bytes.begin(), bytes.end()));
    hopeless_.push_back(hopeless);
    result_.points.push_back(std::move(point));
  }

  template <typename Key> std::vector<size_t> pointsBy(size_t count, Key key) const {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  /// False: no schedule of the point can be the best.
  llvm::Expected<bool> tryPoint(size_t index, ScheduleEffort effort, llvm::StringRef only = "") {
    if (search_.best() && bounds_[index] >= *search_.best()->step)
      return false;
    if (hopeless_[index])
      return true;
    StagedWork work = stages_.workOf(result_.points[index]);
    work.tag = index;
    work.schedule = only.str();
    work.refineActions = kQuickActions;
    TRY(search_.add(std::move(work), effort));
    return true;
  }

  StagedWork refined() const {
    StagedWork work = *search_.best()->work;
    work.refineActions = kRefinedActions;
    return work;
  }

  llvm::Error tryPatterns() {
    for (size_t index : pointsBy(bounds_.size(), [&](size_t i) { return bounds_[i]; })) {
      bool more = TRY(tryPoint(index, ScheduleEffort::Patterns));
      if (!more)
        break;
    }
    return llvm::Error::success();
  }

  /// Schedules that look at costs take long. They are made for the pipelines with which other
  /// schedules did best or, while nothing fits, for the pipelines that need the least memory.
  llvm::Error trySearched() {
    std::vector<int64_t> reached(result_.points.size(), INT64_MAX);
    for (const ScheduleCandidate &candidate : search_.candidates())
      if (candidate.valid())
        reached[candidate.work->tag] =
            std::min(reached[candidate.work->tag], candidate.step.value_or(candidate.atLeast));
    const bool fits = search_.best();
    const size_t most = result_.everyCut && fits ? kMostSearchedOfAll
                        : result_.everyCut       ? kMostPoints
                        : fits                   ? kMostSearched
                                                 : kMostSmallest;
    const std::vector<size_t> order =
        fits ? pointsBy(result_.points.size(),
                        [&](size_t i) { return std::pair(reached[i], bounds_[i]); })
             : pointsBy(anyLimit_, [&](size_t i) { return leastBytes_[i]; });
    size_t tried = 0;
    for (size_t index : order) {
      if (hopeless_[index] || (search_.best() && bounds_[index] >= *search_.best()->step))
        continue;
      if (tried++ == most)
        break;
      TRY(tryPoint(index, ScheduleEffort::Searched).takeError());
    }
    return llvm::Error::success();
  }

  /// The best pipeline with one boundary further on or back, as long as that is better.
  llvm::Error moveBoundaries() {
    if (!search_.best())
      return llvm::Error::success();
    const std::string schedule = search_.best()->schedule;
    size_t left = findGenerator(schedule)->looksAtCosts ? kMostMovedSlow : kMostMoved;
    for (bool better = true; better;) {
      better = false;
      const size_t cuts = result_.points[search_.best()->work->tag].boundaries.size();
      for (size_t i = 0; i < cuts; ++i)
        for (size_t steps : kSteps)
          for (int direction : {-1, 1}) {
            std::optional<TrainingPoint> moved =
                movedPoint(result_.points[search_.best()->work->tag], i,
                           direction * static_cast<ptrdiff_t>(steps));
            if (!moved || llvm::is_contained(result_.points, *moved))
              continue;
            movesCutShort_ = deadline_.passed();
            if (left-- == 0 || movesCutShort_)
              return llvm::Error::success();
            const int64_t was = *search_.best()->step;
            addPoint(std::move(*moved));
            TRY(tryPoint(result_.points.size() - 1, ScheduleEffort::All, schedule).takeError());
            better |= *search_.best()->step < was;
          }
    }
    return llvm::Error::success();
  }

  std::optional<TrainingPoint> movedPoint(const TrainingPoint &point, size_t cut,
                                          ptrdiff_t by) const {
    const std::vector<size_t> &places = stages_.places();
    const auto at = std::lower_bound(places.begin(), places.end(), point.boundaries[cut]);
    const ptrdiff_t place = at - places.begin() + by;
    if (place < 0 || place >= static_cast<ptrdiff_t>(places.size()))
      return std::nullopt;
    const size_t moved = places[static_cast<size_t>(place)];
    if ((cut > 0 && moved <= point.boundaries[cut - 1]) ||
        (cut + 1 < point.boundaries.size() && moved >= point.boundaries[cut + 1]))
      return std::nullopt;
    TrainingPoint other = point;
    other.boundaries[cut] = moved;
    return other;
  }

  /// Considers only pipelines that do not depend on the memory limit, so that a search with the
  /// reported limit finds the same. If one of them fits after all, because the time was up before
  /// it was tried, it is the answer. The search for the least memory has the same time once more.
  llvm::Expected<JointOutcome> nothingFits() {
    const Deadline answer(request_.seconds, TimeCount::Work);
    const size_t most = result_.everyCut ? kMostPoints : kMostSmallest;
    std::optional<LeastMemory> least;
    std::optional<ErrorText> why;
    size_t tried = 0, looked = 0;
    for (size_t index : pointsBy(anyLimit_, [&](size_t i) { return leastBytes_[i]; })) {
      if (least && (leastBytes_[index] >= least->first || tried >= most))
        break;
      if (answer.passed() && (least || looked >= kMostSmallest))
        break;
      ++looked;
      SearchOptions options = optionsOf(request_);
      options.seconds = std::max(kLeastSeconds, answer.limit() - answer.elapsed());
      ScheduleSearch small(options);
      StagedWork work = stages_.workOf(result_.points[index]);
      work.tag = index;
      work.refineActions = kQuickActions;
      TRY(small.add(std::move(work)));
      llvm::Expected<SearchOutcome> found = small.take();
      if (found && search_.complete())
        return failf(ExitCode::Internal, "a pipeline fits that was not found");
      if (found) {
        result_.search = std::move(*found);
        return finished(/*complete=*/false);
      }
      why = describe(found.takeError());
      if (!small.least())
        continue; // no schedule is for such a shape
      ++tried;
      if (!least || small.least()->first < least->first)
        least = small.least();
    }
    return least ? tooLittle(*least) : makeError(why->code, why->message, why->help);
  }

  llvm::Expected<JointOutcome> tooLittle(const LeastMemory &least) const {
    const MemoryNeed need =
        needOf(request_.problem, result_.points[least.second.work->tag], least.second, least.first);
    const bool isLeast = result_.everyCut && areRanksAlike(request_.problem);
    if (isLeast || request_.least != LeastWanted::OfAll)
      return ::pipec::nothingFits(request_, need);
    return searchBelow(request_, need, [](const JointRequest &less) {
      JointRequest quiet = less;
      quiet.least = LeastWanted::None;
      return JointSearch(quiet).run();
    });
  }

  const JointRequest &request_;
  const TrainingStages stages_;
  const Deadline deadline_;
  ScheduleSearch search_;
  JointOutcome result_;
  std::vector<int64_t> bounds_, leastBytes_; // per point: of its step, of its largest rank
  std::vector<bool> hopeless_;               // per point: no schedule fits
  bool movesCutShort_ = false;               // by the time limit
  size_t anyLimit_ = 0; // points before it are the same whatever the memory limit
};

} // namespace

llvm::Expected<JointOutcome> searchJointly(const JointRequest &request) {
  if (request.problem.table.rows.empty() || request.problem.ranks < 1 ||
      request.problem.cluster.devices.empty() || request.chunks.empty() ||
      request.microBatchings.empty())
    return makeError(
        ExitCode::Usage,
        fmt::format("training plan: expected at least one operator, rank, device, number of stages "
                    "per rank and number of micro-batches, got {}, {}, {}, {}, {}",
                    request.problem.table.rows.size(), request.problem.ranks,
                    request.problem.cluster.devices.size(), request.chunks.size(),
                    request.microBatchings.size()),
        request.problem.table.rows.empty() ? "a model without operators has nothing to place" : "");
  return JointSearch(request).run();
}

} // namespace pipec

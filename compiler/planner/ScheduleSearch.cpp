#include "compiler/planner/ScheduleSearch.h"

#include "compiler/planner/Bounds.h"
#include "ir/plan/Check.h"
#include "ir/plan/Words.h"
#include "ir/schedule/OpMemory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace pipec {

namespace {

constexpr size_t kMostAttempts = 3;       // to make a schedule fit with its messages
constexpr size_t kMostStagesOfChoice = 4; // of which every choice of recompute is tried

std::vector<size_t> ranksOfStages(const Plan &plan) {
  std::vector<size_t> ranks;
  for (const StagePlan &stage : plan.stages)
    ranks.push_back(stage.rank);
  return ranks;
}

bool stays(size_t rank, const std::vector<int64_t> &bytes, const std::vector<int64_t> &limit) {
  return limit.empty() || bytes[rank] <= limit[rank];
}

/// The costs of a table that no program of the work beats: recompute is part of the input
/// gradient, and every hop is as fast as the fastest.
ScheduleCosts tableCosts(const StagedWork &work, const std::vector<bool> &recompute) {
  ScheduleCosts costs;
  costs.stages = work.costs.stages;
  for (size_t s = 0; s < recompute.size(); ++s) {
    if (!recompute[s])
      continue;
    StageCosts &stage = costs.stages[s];
    stage.inputGrad += work.costs.recompute.empty() ? stage.forward : work.costs.recompute[s];
    stage.heldByForward = work.costs.keptToRecompute.empty() ? 0 : work.costs.keptToRecompute[s];
    stage.freedByInputGrad = 0;
  }
  std::optional<int64_t> fastest;
  for (size_t c = 0; c < work.plan.channels.size(); ++c) {
    const Channel &channel = work.plan.channels[c];
    if (channel.kind != Channel::Kind::Activation)
      continue;
    for (const PortRef &to : channel.to) {
      const size_t from = work.plan.stages[channel.from.stage].rank,
                   rank = work.plan.stages[to.stage].rank;
      if (to.stage > channel.from.stage + 1)
        costs.skips.emplace_back(channel.from.stage, to.stage);
      if (from == rank)
        continue;
      const LinkCosts &way = work.costs.between(from, rank);
      const int64_t hop = way.latency + way.transferNs(work.costs.bytesOf(work.plan, c));
      fastest = std::min(fastest.value_or(hop), hop);
    }
  }
  costs.latency = fastest.value_or(0);
  return costs;
}

/// Every stage waits for the one before it, and in a training for the gradient of the one after it:
/// a bound that counts these hops holds.
bool isChain(const StagedWork &work) {
  std::set<size_t> waits; // stages that do
  for (const Channel &channel : work.plan.channels)
    for (const PortRef &to : channel.to)
      if (channel.kind == Channel::Kind::Activation && to.stage == channel.from.stage + 1 &&
          (!work.shape.train || channel.tensor.requiresGrad))
        waits.insert(to.stage);
  return waits.size() + 1 >= work.plan.stages.size();
}

llvm::Error checkWork(const StagedWork &work) {
  const size_t stages = work.plan.stages.size();
  if (work.costs.stages.size() != stages)
    return failf(ExitCode::Usage, "search: expected the costs of {} stages, got {}", stages,
                 work.costs.stages.size());
  if (rankOfStages(work.placement, work.plan.ranks, work.chunks) != ranksOfStages(work.plan))
    return failf(ExitCode::Usage, "search: expected {} stages per rank in their usual places",
                 work.chunks);
  for (const std::vector<int64_t> *bytes : {&work.fixedBytes, &work.limitBytes})
    if (!bytes->empty() && bytes->size() != work.plan.ranks)
      return failf(ExitCode::Usage, "search: expected the memory of {} ranks, got {}",
                   work.plan.ranks, bytes->size());
  return llvm::Error::success();
}

} // namespace

int64_t ScheduleCandidate::mostBytes() const {
  return needBytes.empty() ? INT64_MAX : *std::max_element(needBytes.begin(), needBytes.end());
}

struct ScheduleSearch::Impl {
  SearchOptions options;
  Deadline deadline;
  SearchOutcome result;
  std::optional<ScheduleCandidate> best;
  int64_t excess = 0;              // bytes by which the last program was too large
  std::set<size_t> chunksTried;    // stages per rank of what was added
  size_t ranks = 0;                // of what was added last
  std::optional<ErrorText> misfit; // the first generator that is not for such a shape
  std::optional<std::pair<int64_t, ScheduleCandidate>> least; // when nothing fits

  explicit Impl(SearchOptions given) : options(std::move(given)), deadline(options.seconds) {}

  std::string memoryText(int64_t bytes) const {
    return options.memoryText ? options.memoryText(bytes) : fmt::format("{} bytes", bytes);
  }

  llvm::Error add(StagedWork given, ScheduleEffort effort) {
    if (llvm::Error error = checkWork(given))
      return error;
    auto work = std::make_shared<StagedWork>(std::move(given));
    work->shape.recompute.clear();
    chunksTried.insert(work->chunks);
    ranks = work->plan.ranks;
    const int64_t bound = ScheduleSearch::lowerBound(*work);
    result.lowerBound = result.lowerBound ? std::min(result.lowerBound, bound) : bound;
    for (bool looksAtCosts : {false, true}) { // those that take time come last
      if (effort == (looksAtCosts ? ScheduleEffort::Patterns : ScheduleEffort::Searched))
        continue;
      for (const Generator &generator : generators()) {
        if (best && bound >= *best->step)
          return llvm::Error::success();
        if (generator.looksAtCosts == looksAtCosts)
          if (llvm::Error error = tryGenerator(generator, work, bound))
            return error;
      }
    }
    return llvm::Error::success();
  }

  bool asked(const Generator &generator, const StagedWork &work) const {
    for (const std::string &only : {options.schedule, work.schedule})
      if (!only.empty() && generator.name != only)
        return false;
    if (generator.inference == work.shape.train)
      return false;
    return generator.placement == work.placement || work.chunks == 1;
  }

  llvm::Error tryGenerator(const Generator &generator, const std::shared_ptr<StagedWork> &work,
                           int64_t bound) {
    const bool few = work->chunks < generator.leastChunks,
               many = generator.mostChunks && work->chunks > generator.mostChunks;
    if (few || many || !asked(generator, *work))
      return llvm::Error::success();
    ScheduleCandidate candidate;
    candidate.schedule = generator.name.str();
    candidate.work = work;
    candidate.atLeast = bound;
    if (deadline.passed()) {
      result.complete = false;
      return llvm::Error::success();
    }
    const size_t stages = work->plan.stages.size();
    if (options.recompute == RecomputeChoice::Always && work->shape.train)
      candidate.recompute.assign(stages, true);
    const bool choose = options.recompute == RecomputeChoice::Auto && work->shape.train;
    while (true) {
      llvm::Expected<bool> fits = tryCandidate(generator, candidate);
      if (!fits)
        return fits.takeError();
      if (*fits || !choose || candidate.needBytes.empty())
        break;
      if (stages <= kMostStagesOfChoice && !generator.looksAtCosts) {
        if (llvm::Error error = tryChoices(generator, candidate))
          return error;
        break;
      }
      if (!recomputeMore(candidate))
        break;
    }
    result.candidates.push_back(std::move(candidate));
    return llvm::Error::success();
  }

  /// Every set of stages to recompute of which no part fits; `candidate` becomes the best, or where
  /// none fits the one that needs least.
  llvm::Error tryChoices(const Generator &generator, ScheduleCandidate &candidate) {
    const size_t stages = candidate.work->plan.stages.size();
    std::vector<uint32_t> sets(size_t(1) << stages), fitting;
    std::iota(sets.begin(), sets.end(), 0);
    llvm::stable_sort(sets, [](uint32_t a, uint32_t b) {
      return llvm::countPopulation(a) < llvm::countPopulation(b);
    });
    auto order = [](const ScheduleCandidate &c) {
      return std::make_tuple(!c.valid(), c.valid() ? !c.step : false,
                             c.valid() ? c.step.value_or(c.atLeast) : c.mostBytes());
    };
    for (uint32_t set : sets) {
      if (set == 0 || llvm::any_of(fitting, [&](uint32_t part) { return (set & part) == part; }))
        continue;
      ScheduleCandidate other;
      other.schedule = candidate.schedule;
      other.work = candidate.work;
      other.atLeast = ScheduleSearch::lowerBound(*candidate.work);
      for (size_t s = 0; s < stages; ++s)
        other.recompute.push_back(set >> s & 1);
      llvm::Expected<bool> fits = tryCandidate(generator, other);
      if (!fits)
        return fits.takeError();
      if (*fits && other.valid())
        fitting.push_back(set);
      if (order(other) < order(candidate))
        candidate = std::move(other);
    }
    return llvm::Error::success();
  }

  /// Every rank over its limit recomputes one more stage: the one that gives most bytes for its
  /// time. False: there is none left on some rank.
  bool recomputeMore(ScheduleCandidate &candidate) const {
    const StagedWork &work = *candidate.work;
    const ProgramCosts &costs = work.costs;
    if (candidate.needBytes.empty())
      return false;
    const size_t stages = work.plan.stages.size();
    candidate.recompute.resize(stages, false);
    auto value = [&](size_t s) {
      const int64_t kept = costs.keptToRecompute.empty() ? 0 : costs.keptToRecompute[s];
      const int64_t time = costs.recompute.empty() ? costs.stages[s].forward : costs.recompute[s];
      return double(costs.stages[s].heldByForward - kept) / double(std::max<int64_t>(1, time));
    };
    bool more = false;
    for (size_t r = 0; r < work.plan.ranks; ++r) {
      if (stays(r, candidate.needBytes, work.limitBytes))
        continue;
      std::optional<size_t> most;
      for (size_t s = 0; s < stages; ++s)
        if (work.plan.stages[s].rank == r && !candidate.recompute[s] && value(s) > 0 &&
            (!most || value(s) > value(*most)))
          most = s;
      if (!most)
        return false;
      candidate.recompute[*most] = true;
      more = true;
    }
    return more; // no rank is over where only the generator's own count said so
  }

  /// `spare`: bytes of the limit that tables do not count.
  ScheduleRequest requestFor(const ScheduleCandidate &candidate, int64_t &leastMemory,
                             int64_t spare) const {
    const StagedWork &work = *candidate.work;
    ScheduleRequest request;
    request.ranks = work.plan.ranks;
    request.chunks = work.chunks;
    request.microBatches = work.shape.microBatches;
    request.costs = tableCosts(work, candidate.recompute);
    request.memoryText = options.memoryText;
    request.leastMemory = &leastMemory;
    request.refineActions = work.refineActions;
    request.timeIsUp = [this] { return deadline.passed(); };
    for (size_t r = 0; r < work.limitBytes.size(); ++r)
      request.memoryLimit = std::min(
          request.memoryLimit, std::max<int64_t>(0, work.limitBytes[r] - fixed(work, r) - spare));
    return request;
  }

  static int64_t fixed(const StagedWork &work, size_t rank) {
    return work.fixedBytes.empty() ? 0 : work.fixedBytes[rank];
  }

  /// Fills the candidate; takes it when it is the best so far. False: it needs too much memory.
  /// Messages need some, which generators that choose by memory are not told of at first.
  llvm::Expected<bool> tryCandidate(const Generator &generator, ScheduleCandidate &candidate) {
    int64_t spare = 0;
    for (size_t attempt = 0;; ++attempt) {
      excess = 0;
      llvm::Expected<bool> fits = tryOnce(generator, candidate, spare);
      const bool quick = candidate.work->refineActions < ScheduleRequest().refineActions;
      if (!fits || *fits || !generator.looksAtCosts || excess == 0 ||
          attempt == (quick ? 1 : kMostAttempts))
        return fits;
      spare += excess;
    }
  }

  llvm::Expected<bool> tryOnce(const Generator &generator, ScheduleCandidate &candidate,
                               int64_t spare) {
    const StagedWork &work = *candidate.work;
    int64_t leastMemory = -1;
    const ScheduleRequest request = requestFor(candidate, leastMemory, spare);
    llvm::Expected<Schedule> schedule = makeSchedule(generator, request);
    if (generator.looksAtCosts && deadline.passed())
      result.complete = false;
    if (!schedule) {
      candidate.why = describe(schedule.takeError());
      if (leastMemory >= 0)
        candidate.needBytes.clear();
      if (leastMemory >= 0)
        for (size_t r = 0; r < work.plan.ranks; ++r)
          candidate.needBytes.push_back(leastMemory + fixed(work, r));
      if (candidate.why.code == ExitCode::Usage && !misfit)
        misfit = candidate.why;
      return candidate.why.code != ExitCode::NoPlan;
    }
    candidate.why = {ExitCode::Success, "", ""};
    ScheduleCosts costs = request.costs;
    if (!work.shape.train) // what no backward reads is dropped at once
      for (StageCosts &stage : costs.stages)
        stage.heldByForward = stage.freedByInputGrad = 0;
    llvm::Expected<Timing> timing = timeSchedule(*schedule, costs);
    if (!timing)
      return timing.takeError();
    candidate.atLeast = std::max(candidate.atLeast, timing->makespan);
    candidate.needBytes = timing->peakBytes;
    for (size_t r = 0; r < work.plan.ranks; ++r)
      candidate.needBytes[r] += fixed(work, r); // and what messages and R hold: the program says
    if (!judgeMemory(candidate))
      return false;
    return simulateCandidate(std::move(*schedule), candidate);
  }

  bool judgeMemory(ScheduleCandidate &candidate) const {
    const StagedWork &work = *candidate.work;
    for (size_t r = 0; r < work.plan.ranks; ++r)
      if (!stays(r, candidate.needBytes, work.limitBytes)) {
        candidate.why = {ExitCode::NoPlan,
                         fmt::format("rank {} needs {}, the limit is {}", r,
                                     memoryText(candidate.needBytes[r]),
                                     memoryText(work.limitBytes[r])),
                         ""};
        return false;
      }
    candidate.why = {ExitCode::Success, "", ""};
    return true;
  }

  llvm::Expected<bool> simulateCandidate(Schedule schedule, ScheduleCandidate &candidate) {
    const StagedWork &work = *candidate.work;
    RunShape shape = work.shape;
    shape.recompute = candidate.recompute;
    llvm::Expected<Program> program = lower(schedule, work.plan, shape);
    if (!program)
      return program.takeError();
    const std::vector<MemoryPeak> peaks = memoryPeaks(*program, work.plan, shape, work.costs);
    for (size_t r = 0; r < work.plan.ranks; ++r)
      candidate.needBytes[r] = peaks[r].bytes + fixed(work, r);
    if (!judgeMemory(candidate)) {
      for (size_t r = 0; r < work.plan.ranks; ++r)
        excess = std::max(excess, candidate.needBytes[r] - work.limitBytes[r]);
      return false;
    }
    if (best && candidate.atLeast >= *best->step)
      return true;
    llvm::Expected<SimulatedRun> run =
        simulate(*program, work.plan, shape, work.costs, /*keepIntervals=*/false);
    if (!run)
      return run.takeError();
    candidate.step = run->makespan;
    if (best && *best->step <= run->makespan)
      return true;
    best = candidate;
    result.schedule = std::move(schedule);
    result.run = std::move(*run);
    return true;
  }

  llvm::Expected<SearchOutcome> take() {
    if (!best)
      return noPlan();
    auto order = [&](const ScheduleCandidate &candidate) {
      const bool isBest = candidate.work == best->work && candidate.schedule == best->schedule;
      return std::make_tuple(!isBest, !candidate.valid(),
                             candidate.step.value_or(candidate.atLeast));
    };
    llvm::stable_sort(result.candidates,
                      [&](const auto &a, const auto &b) { return order(a) < order(b); });
    PIPEC_ASSERT(result.lowerBound <= result.run.makespan,
                 "a schedule is as fast as no schedule can be");
    return std::move(result);
  }

  /// Of its program, where the table was too large already.
  std::optional<int64_t> exactNeed(const ScheduleCandidate &candidate) const {
    const StagedWork &work = *candidate.work;
    int64_t ignored = -1;
    ScheduleRequest request = requestFor(candidate, ignored, 0);
    request.memoryLimit = 0;
    for (size_t r = 0; r < work.plan.ranks; ++r)
      request.memoryLimit = std::max(request.memoryLimit, candidate.needBytes[r] - fixed(work, r));
    llvm::Expected<Schedule> schedule = makeSchedule(*findGenerator(candidate.schedule), request);
    RunShape shape = work.shape;
    shape.recompute = candidate.recompute;
    llvm::Expected<Program> program =
        schedule ? lower(*schedule, work.plan, shape) : schedule.takeError();
    if (!program) {
      llvm::consumeError(program.takeError());
      return std::nullopt;
    }
    int64_t most = 0;
    const std::vector<MemoryPeak> peaks = memoryPeaks(*program, work.plan, shape, work.costs);
    for (size_t r = 0; r < work.plan.ranks; ++r)
      most = std::max(most, peaks[r].bytes + fixed(work, r));
    return most;
  }

  /// The candidate with whatever may be recomputed, where every choice is tried.
  std::vector<ScheduleCandidate> choicesOf(const ScheduleCandidate &candidate) const {
    const size_t stages = candidate.work->plan.stages.size();
    std::vector<ScheduleCandidate> choices = {candidate};
    if (options.recompute != RecomputeChoice::Auto || !candidate.work->shape.train ||
        stages > kMostStagesOfChoice || findGenerator(candidate.schedule)->looksAtCosts)
      return choices;
    for (uint32_t set = 0; set < uint32_t(1) << stages; ++set) {
      choices.push_back(candidate);
      choices.back().recompute.assign(stages, false);
      for (size_t s = 0; s < stages; ++s)
        choices.back().recompute[s] = set >> s & 1;
    }
    return choices;
  }

  /// No generator that was asked for is for the stages per rank of any work.
  llvm::Error misfitChunks() const {
    if (!result.complete)
      return makeError(ExitCode::Usage, "time was up before a schedule was found",
                       "give the search more time");
    std::string numbers;
    for (size_t chunks : chunksTried)
      numbers += (numbers.empty() ? "" : " or ") + std::to_string(chunks);
    const Generator *generator = findGenerator(options.schedule);
    if (!generator)
      return makeError(ExitCode::Usage,
                       fmt::format("no schedule is for {} stages per rank", numbers),
                       "pipe-schedule --list shows how many each schedule is for");
    const size_t fewest = generator->leastChunks, most = generator->mostChunks;
    const std::string wanted = fewest == most ? std::to_string(fewest)
                               : most         ? fmt::format("{} to {}", fewest, most)
                                              : fmt::format("at least {}", fewest);
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected {} {} per rank, got {}", options.schedule, wanted,
                                 most == 1 ? "stage" : "stages", numbers),
                     fmt::format("{} can have --stages {}{}; or choose another schedule",
                                 counted(ranks, "rank"), fewest * ranks,
                                 most == fewest ? "" : " or a larger multiple"));
  }

  llvm::Error noPlan() {
    deadline = Deadline(options.seconds); // the answer needs some of its own
    std::vector<ScheduleCandidate *> tooLarge;
    for (ScheduleCandidate &candidate : result.candidates)
      if (candidate.why.code == ExitCode::NoPlan && !candidate.needBytes.empty())
        tooLarge.push_back(&candidate);
    llvm::stable_sort(tooLarge,
                      [](const auto *a, const auto *b) { return a->mostBytes() < b->mostBytes(); });
    const ScheduleCandidate *smallest = nullptr;
    int64_t leastBytes = INT64_MAX;
    for (ScheduleCandidate *candidate : tooLarge) {
      if (candidate->mostBytes() >= leastBytes)
        break;
      for (ScheduleCandidate &choice : choicesOf(*candidate)) {
        const std::optional<int64_t> need = exactNeed(choice);
        if (!need || *need >= leastBytes)
          continue;
        leastBytes = *need;
        *candidate = std::move(choice);
        smallest = candidate;
      }
    }
    // Generators that choose by memory may do with less when they are asked to.
    for (bool lower = smallest; lower;) {
      lower = false;
      for (const ScheduleCandidate *candidate : tooLarge) {
        if (!findGenerator(candidate->schedule)->looksAtCosts)
          continue;
        auto work = std::make_shared<StagedWork>(*candidate->work);
        work->limitBytes.assign(work->plan.ranks, leastBytes - 1);
        ScheduleCandidate again = *candidate;
        again.work = work;
        best.reset();
        llvm::Expected<bool> fits = tryCandidate(*findGenerator(again.schedule), again);
        if (!fits)
          return fits.takeError();
        if (!*fits || !again.valid() || again.mostBytes() >= leastBytes)
          continue;
        leastBytes = again.mostBytes();
        smallest = candidate;
        lower = true;
      }
    }
    if (smallest) {
      least = {leastBytes, *smallest};
      const std::vector<int64_t> &limits = smallest->work->limitBytes;
      return makeError(ExitCode::NoPlan,
                       fmt::format("no schedule fits: expected at least {} per rank ({}), got {}",
                                   memoryText(leastBytes), smallest->schedule,
                                   memoryText(*std::min_element(limits.begin(), limits.end()))),
                       "more ranks need less memory each");
    }
    if (misfit)
      return makeError(misfit->code, misfit->message, misfit->help);
    return misfitChunks();
  }
};

ScheduleSearch::ScheduleSearch(SearchOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
ScheduleSearch::~ScheduleSearch() = default;

llvm::Error ScheduleSearch::add(StagedWork work, ScheduleEffort effort) {
  return impl_->add(std::move(work), effort);
}

int64_t ScheduleSearch::lowerBound(const StagedWork &work) {
  RunShape shape = work.shape;
  shape.recompute.clear();
  const int64_t bound = runLowerBound(work.plan, shape, work.costs);
  if (!isChain(work))
    return bound;
  return std::max(bound, makespanLowerBound(tableCosts(work, {}), ranksOfStages(work.plan),
                                            work.plan.ranks, shape.microBatches, !shape.train));
}

const ScheduleCandidate *ScheduleSearch::best() const {
  return impl_->best ? &*impl_->best : nullptr;
}
const std::vector<ScheduleCandidate> &ScheduleSearch::candidates() const {
  return impl_->result.candidates;
}
bool ScheduleSearch::complete() const { return impl_->result.complete; }
const std::optional<std::pair<int64_t, ScheduleCandidate>> &ScheduleSearch::least() const {
  return impl_->least;
}
llvm::Expected<SearchOutcome> ScheduleSearch::take() { return impl_->take(); }

} // namespace pipec

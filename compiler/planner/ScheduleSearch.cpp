#include "compiler/planner/ScheduleSearch.h"

#include "compiler/planner/RecomputeChoices.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

namespace pipec {

struct ScheduleSearch::Impl {
  SearchOptions options;
  CandidateTrial trial;
  SearchOutcome result;
  std::set<size_t> chunksTried;     // stages per rank of what was added
  size_t ranks = 0;                 // of what was added last
  std::optional<LeastMemory> least; // when nothing fits

  explicit Impl(SearchOptions given)
      : options(std::move(given)), trial(options.seconds, options.memoryText) {}

  const ScheduleCandidate *best() const {
    return trial.best() ? &trial.best()->candidate : nullptr;
  }

  llvm::Error add(StagedWork given, ScheduleEffort effort) {
    TRY(checkWork(given));
    auto work = std::make_shared<StagedWork>(std::move(given));
    work->shape.recompute.clear();
    if (options.recompute.choice == RecomputeChoice::ExceptLast)
      for (size_t s = 0; s < work->plan.stages.size(); ++s)
        work->shape.kept.insert({s, work->shape.microBatches - 1});
    chunksTried.insert(work->chunks);
    ranks = work->plan.ranks;
    const int64_t bound = lowerBoundOf(*work);
    result.lowerBound = result.lowerBound ? std::min(result.lowerBound, bound) : bound;
    for (bool looksAtCosts : {false, true}) { // those that take time come last
      if (effort == (looksAtCosts ? ScheduleEffort::Patterns : ScheduleEffort::Searched))
        continue;
      for (const Generator &generator : generators()) {
        if (best() && bound >= *best()->step)
          return llvm::Error::success();
        if (generator.looksAtCosts == looksAtCosts)
          TRY(tryGenerator(generator, work, bound));
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
    if (trial.outOfTime()) {
      trial.setIncomplete();
      return llvm::Error::success();
    }
    if (!options.recompute.isAuto() && work->shape.train)
      for (size_t s = 0; s < work->plan.stages.size(); ++s)
        candidate.recompute.push_back(options.recompute.names(s));
    const bool choose = options.recompute.isAuto() && work->shape.train;
    while (true) {
      bool fits = TRY(trial.tryCandidate(generator, candidate));
      if (fits || !choose || candidate.needBytes.empty())
        break;
      if (triesEveryChoice(generator, *work)) {
        TRY(tryChoices(trial, generator, candidate));
        break;
      }
      if (!recomputeMore(candidate))
        break;
    }
    result.candidates.push_back(std::move(candidate));
    return llvm::Error::success();
  }

  llvm::Expected<SearchOutcome> take() {
    if (!best())
      return noPlan();
    FastestSchedule fastest = trial.takeBest();
    result.schedule = std::move(fastest.schedule);
    result.run = std::move(fastest.run);
    result.complete = trial.complete();
    auto order = [&](const ScheduleCandidate &candidate) {
      const ScheduleCandidate &best = fastest.candidate;
      const bool isBest = candidate.work == best.work && candidate.schedule == best.schedule;
      return std::make_tuple(!isBest, !candidate.valid(),
                             candidate.step.value_or(candidate.atLeast));
    };
    llvm::stable_sort(result.candidates,
                      [&](const auto &a, const auto &b) { return order(a) < order(b); });
    PIPEC_ASSERT(result.lowerBound <= result.run.makespan,
                 "a schedule is as fast as no schedule can be");
    return std::move(result);
  }

  /// The error if none of the requested generators makes schedules for the stages per rank of the
  /// problems.
  llvm::Error misfitChunks() const {
    if (!trial.complete())
      return makeError(ExitCode::Usage, "the time limit passed before a schedule was found",
                       "give the search more time");
    std::string numbers;
    for (size_t chunks : chunksTried)
      numbers += (numbers.empty() ? "" : " or ") + std::to_string(chunks);
    const Generator *generator = findGenerator(options.schedule);
    if (!generator)
      return makeError(ExitCode::Usage,
                       fmt::format("no schedule supports {} stages per rank", numbers),
                       "pipe-schedule --list shows how many each schedule supports");
    const size_t fewest = generator->leastChunks, most = generator->mostChunks;
    const std::string wanted = fewest == most ? std::to_string(fewest)
                               : most         ? fmt::format("{} to {}", fewest, most)
                                              : fmt::format("at least {}", fewest);
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected {} {} per rank, got {}", options.schedule, wanted,
                                 most == 1 ? "stage" : "stages", numbers),
                     fmt::format("with {}, use --stages {}{}; or choose another schedule",
                                 counted(ranks, "rank"), fewest * ranks,
                                 most == fewest ? "" : " or a larger multiple"));
  }

  llvm::Error noPlan() {
    trial.restartTime(); // the answer needs some of its own
    std::optional<LeastMemory> found =
        TRY(findLeastMemory(trial, result.candidates, options.recompute.isAuto()));
    if (found) {
      least = std::move(found);
      const auto &[leastBytes, smallest] = *least;
      const std::vector<int64_t> &limits = smallest.work->limitBytes;
      return makeError(ExitCode::NoPlan,
                       fmt::format("no schedule fits: expected at least {} per rank ({}), got {}",
                                   trial.text(leastBytes), smallest.schedule,
                                   trial.text(*std::min_element(limits.begin(), limits.end()))),
                       options.helpWithMemory);
    }
    if (const std::optional<ErrorText> &misfit = trial.misfit())
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

const ScheduleCandidate *ScheduleSearch::best() const { return impl_->best(); }
const std::vector<ScheduleCandidate> &ScheduleSearch::candidates() const {
  return impl_->result.candidates;
}
bool ScheduleSearch::complete() const { return impl_->trial.complete(); }
const std::optional<LeastMemory> &ScheduleSearch::least() const { return impl_->least; }
llvm::Expected<SearchOutcome> ScheduleSearch::take() { return impl_->take(); }

} // namespace pipec

#include "compiler/cost/OperatorTimes.h"

#include "compiler/cost/EstimateCosts.h"
#include "compiler/cost/GraphTimer.h"
#include "compiler/cost/OperatorGraph.h"
#include "compiler/cost/WeightStorages.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/Median.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "llvm/Support/Threading.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace pipec {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostTimedRuns = 25;
constexpr size_t kRunsOfDistinct = 3; // of large models, whose operators take long
constexpr int64_t kLongRunNs =
    500'000'000;                    // the cost of a first run is small beside a run this long
constexpr double kTolerated = 0.1;  // of the whole model's time; larger differences get a note
constexpr double kUnreliable = 0.5; // larger ones say nothing about the model

int64_t halfOfMemory() { return sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE); }

/// A rank on its own thread: runs the model, or its distinct operators, repeatedly between work()
/// and rest().
class OtherRank {
public:
  OtherRank(Model &model, const std::vector<c10::IValue> &inputs, Running running)
      : timer_(model, running), inputs_(inputs) {}

  ~OtherRank() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

  /// Prepares on the caller's thread, because preparations must not run in parallel.
  llvm::Error start() {
    TRY(timer_.runsDistinct() ? runOnce() : timer_.prepare());
    thread_ = std::thread([this] { serve(); });
    return llvm::Error::success();
  }

  void work() { set(true); }

  /// Returns when the current run has ended.
  void rest() {
    set(false);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
  }

private:
  void set(bool wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    wanted_ = wanted;
    changed_.notify_all();
  }

  /// Preparations are part of the first run of operators.
  llvm::Error runOnce() {
    return timer_.runsDistinct() ? timer_.operators(ownCopies(inputs_)).takeError()
                                 : timer_.whole(ownCopies(inputs_)).takeError();
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || wanted_; });
      if (stop_)
        return;
      busy_ = true;
      lock.unlock();
      llvm::consumeError(runOnce()); // an error here also occurs on the measuring thread
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  GraphTimer timer_;
  const std::vector<c10::IValue> &inputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, busy_ = false, stop_ = false;
  std::thread thread_;
};

/// Times under one condition: alone, or beside other ranks.
struct Samples {
  std::vector<std::vector<int64_t>> operators; // per operator
  std::vector<int64_t> sums;                   // of the operators' times, per run
  std::vector<int64_t> wholes;                 // per run; none where they are not compared

  int64_t median(size_t i) const { return medianOf(operators[i]); }
};

class OperatorTimer {
public:
  OperatorTimer(Model &model, std::vector<std::string> &notes,
                const std::vector<c10::IValue> &inputs, const TimingRequest &request)
      : model_(model), notes_(notes), inputs_(inputs), budgetNs_(request.budgetNs),
        mostBytes_(request.mostBytes ? request.mostBytes : halfOfMemory()),
        backward_(request.backward), running_(request.backward ? Running::All : request.running),
        timer_(model, running_), table_(emptyTable(model)) {
    const size_t cores = llvm::hardware_concurrency().compute_thread_count();
    table_.pending = request.backward;
    table_.atOnce = static_cast<int64_t>(std::max<size_t>(1, std::min(request.ranks, cores)));
    alone_.operators.resize(table_.rows.size());
    shared_.operators.resize(table_.rows.size());
    inputGrads_.resize(table_.rows.size());
    weightGrads_.resize(table_.rows.size());
  }

  llvm::Expected<CostTable> run() {
    const auto start = Clock::now();
    TRY(warmUp(start));
    const size_t most = timer_.runsDistinct() ? kRunsOfDistinct : kMostTimedRuns;
    for (size_t run = 1; run <= most; ++run) {
      if (run > 1 || alone_.sums.empty())
        TRY(timeOnce(alone_));
      TRY(timeShared(run));
      TRY(timeBackward(run));
      const int64_t spent = std::chrono::nanoseconds(Clock::now() - start).count();
      if (spent + spent / static_cast<int64_t>(run) > budgetNs_) // no run that may exceed the
                                                                 // budget
        break;
    }
    fillTable();
    return std::move(table_);
  }

private:
  llvm::Error warmUp(Clock::time_point start) {
    std::vector<int64_t> first =
        TRY(timer_.operators(ownCopies(inputs_), [&](const OperatorRun &done) {
          table_.rows[done.index].outputBytes = outputBytesOf(done);
        }));
    // A measurement with a comparison takes at least seven more passes: see timeOnce.
    const int64_t spent = std::chrono::nanoseconds(Clock::now() - start).count();
    passNs_ = spent;
    comparesWhole_ = !timer_.runsDistinct() && 8 * spent <= budgetNs_;
    if (comparesWhole_) {
      TRY(timer_.whole(ownCopies(inputs_)).takeError());
    } else if (!timer_.runsDistinct() && spent >= kLongRunNs) {
      keep(alone_, first);
    }
    for (int64_t other = 1; other < table_.atOnce; ++other) {
      others_.push_back(std::make_unique<OtherRank>(model_, inputs_, running_));
      TRY(others_.back()->start());
    }
    return llvm::Error::success();
  }

  static void keep(Samples &samples, const std::vector<int64_t> &times) {
    for (size_t i = 0; i < times.size(); ++i)
      samples.operators[i].push_back(times[i]);
    samples.sums.push_back(std::accumulate(times.begin(), times.end(), int64_t(0)));
  }

  llvm::Error timeOnce(Samples &samples) {
    const auto start = Clock::now();
    std::vector<int64_t> times = TRY(timer_.operators(ownCopies(inputs_)));
    passNs_ = std::chrono::nanoseconds(Clock::now() - start).count();
    keep(samples, times);
    if (!comparesWhole_)
      return llvm::Error::success();
    int64_t whole = TRY(timer_.whole(ownCopies(inputs_)));
    samples.wholes.push_back(whole);
    return llvm::Error::success();
  }

  llvm::Error timeBackward(size_t run) {
    if (!backward_)
      return llvm::Error::success();
    int64_t sum = 0;
    TRY(timer_.operators(
        ownCopies(inputs_),
        [&](const OperatorRun &done) {
          inputGrads_[done.index].push_back(done.backward.inputGradNs);
          weightGrads_[done.index].push_back(done.backward.weightGradNs);
          sum += done.backward.inputGradNs + done.backward.weightGradNs;
          table_.rows[done.index].keptBytes = done.keptBytes;
          table_.rows[done.index].pendingBytes = done.pendingBytes;
        },
        /*backward=*/true));
    return timeTraining(run, sum);
  }

  /// Times a training's pass over the whole model, beside the other ranks. If that fails, the
  /// operators' times have nothing to be compared with. `sum`: of their backwards in this run.
  llvm::Error timeTraining(size_t run, int64_t sum) {
    if (!trainingFailed_.empty())
      return llvm::Error::success();
    const CostRow all = table_.sum(0, table_.rows.size());
    if (const int64_t bytes = all.keptBytes + 2 * all.weightBytes; bytes > mostBytes_) {
      trainingFailed_ = fmt::format("it would need {}, and this machine has {}", exactBytes(bytes),
                                    exactBytes(2 * mostBytes_));
      return llvm::Error::success();
    }
    auto pass = [&](WholePass &into) {
      llvm::Expected<WholePass> done = timer_.wholeTraining(ownCopies(inputs_));
      if (done)
        into = *done;
      else
        trainingFailed_ = describe(done.takeError()).message;
      return llvm::Error::success();
    };
    WholePass whole;
    if (wholeBackwards_.empty()) // does the preparations
      TRY(pass(whole));
    if (trainingFailed_.empty())
      TRY(besideOthers(run, [&] { return pass(whole); }));
    if (!trainingFailed_.empty())
      return llvm::Error::success();
    wholeBackwards_.push_back(whole.backwardNs);
    forwardRatios_.push_back(ratio(whole.forwardNs, beside().sums.back()));
    backwardRatios_.push_back(ratio(whole.backwardNs, sum));
    return llvm::Error::success();
  }

  static double ratio(int64_t whole, int64_t sum) {
    return static_cast<double>(whole) / static_cast<double>(std::max<int64_t>(1, sum));
  }

  /// The condition that plans are made for.
  Samples &beside() { return others_.empty() ? alone_ : shared_; }

  /// Runs `body` while the other ranks are at work. They start at another place of the model each
  /// time, as in a pipeline.
  llvm::Error besideOthers(size_t run, llvm::function_ref<llvm::Error()> body) {
    constexpr double kGoldenRatio = 0.6180339887; // spreads any number of runs evenly
    const double ahead = std::fmod(static_cast<double>(run) * kGoldenRatio, 1.0);
    for (size_t i = 0; i < others_.size(); ++i) {
      others_[i]->work();
      std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(
          ahead * static_cast<double>(passNs_) / static_cast<double>(others_.size()))));
    }
    llvm::Error error = body();
    for (const std::unique_ptr<OtherRank> &other : others_)
      other->rest();
    return error;
  }

  llvm::Error timeShared(size_t run) {
    if (others_.empty())
      return llvm::Error::success();
    return besideOthers(run, [&] { return timeOnce(shared_); });
  }

  void fillTable() {
    int64_t sum = 0;
    for (size_t i = 0; i < table_.rows.size(); ++i) {
      const int64_t alone = alone_.median(i);
      sum += alone;
      table_.rows[i].forwardNs = others_.empty() ? alone : shared_.median(i);
      if (!others_.empty())
        table_.rows[i].forwardAloneNs = alone;
      if (backward_) {
        table_.rows[i].inputGradNs = medianOf(inputGrads_[i]);
        table_.rows[i].weightGradNs = medianOf(weightGrads_[i]);
      }
    }
    const bool calibrates = backward_ && trainingFailed_.empty();
    if (comparesWhole_)
      compare("times", sum, "the whole model takes", medianOf(alone_.wholes), calibrates);
    if (!backward_)
      return;
    const CostRow all = table_.sum(0, table_.rows.size());
    if (calibrates) {
      compare("backwards", all.inputGradNs + all.weightGradNs, "the whole model's takes",
              medianOf(wholeBackwards_), calibrates);
      calibrate();
    } else {
      notes_.push_back("the operators' backward times were not compared with the whole model's: " +
                       trainingFailed_);
    }
  }

  /// Makes the operators' times add up to those of a training's pass. A graph is recorded in it,
  /// values and weights have left the caches when the backward comes to them, and beside other
  /// ranks it takes longer, none of which an operator's own walk shows. A run compares both at
  /// once, so what else slows the machine changes both.
  void calibrate() {
    const double forward = medianOf(forwardRatios_), backward = medianOf(backwardRatios_);
    auto scale = [](int64_t &ns, double by) { ns = std::llround(static_cast<double>(ns) * by); };
    for (CostRow &row : table_.rows) {
      scale(row.forwardNs, forward);
      scale(row.forwardAloneNs, forward);
      scale(row.inputGradNs, backward);
      scale(row.weightGradNs, backward);
    }
  }

  /// `calibrated`: the difference does not reach the predictions, unless it says that one of both
  /// is unreliable.
  void compare(const char *what, int64_t sum, const char *of, int64_t whole, bool calibrated) {
    const double off =
        static_cast<double>(sum - whole) / static_cast<double>(std::max<int64_t>(1, whole));
    if (std::abs(off) <= (calibrated ? kUnreliable : kTolerated))
      return;
    const char *meaning =
        std::abs(off) > kUnreliable
            ? "these times are unreliable, as when other processes use the machine or operators "
              "are short; compile while it does nothing else, with a larger --cost-budget, with "
              "more samples in --inputs, or with --cost analytic"
            : "predicted times are off by about as much; for better ones, compile while the "
              "machine does nothing else, with a larger --cost-budget, or with more samples in "
              "--inputs";
    notes_.push_back(fmt::format("the operators' {} add up to {:.3f} ms, {} {:.3f} ms ({:+.0f} %): "
                                 "{}",
                                 what, static_cast<double>(sum) / 1e6, of,
                                 static_cast<double>(whole) / 1e6, 100 * off, meaning));
  }

  Model &model_;
  std::vector<std::string> &notes_;
  const std::vector<c10::IValue> &inputs_;
  int64_t budgetNs_;
  const int64_t mostBytes_;
  bool backward_;
  const Running running_;
  GraphTimer timer_;
  CostTable table_;
  bool comparesWhole_ = true; // the budget has room for runs of the graph as one
  Samples alone_, shared_;
  int64_t passNs_ = 0; // of the last pass over the operators that run
  std::vector<std::vector<int64_t>> inputGrads_, weightGrads_; // per operator
  std::vector<int64_t> wholeBackwards_;
  std::string trainingFailed_; // why there is no pass over the whole model; empty: there is
  std::vector<double> forwardRatios_, backwardRatios_; // of the whole model to the operators' sum
  std::vector<std::unique_ptr<OtherRank>> others_;
};

} // namespace

CostTable emptyTable(const Model &model) {
  const OperatorGraph graph = operatorGraph(model);
  CostTable table;
  for (const OperatorGraph::Operator &row : graph.operators)
    table.rows.push_back({row.op, row.module, 0, 0});
  for (const WeightStorage &weight : weightStorages(model, graph))
    table.rows[*weight.readers.begin()].weightBytes += weight.bytes;
  return table;
}

llvm::Expected<CostTable> timeOperators(Model &model, std::vector<std::string> &notes,
                                        const std::vector<c10::IValue> &inputs,
                                        const TimingRequest &request) {
  return OperatorTimer(model, notes, inputs, request).run();
}

} // namespace pipec

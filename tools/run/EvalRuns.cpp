#include "tools/run/EvalRuns.h"

#include "ir/TorchError.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "tools/cli/ProgressLine.h"
#include "tools/report/RunReport.h"
#include "tools/report/Table.h"

#include <chrono>
#include <limits>

namespace pipec {

llvm::Expected<EvalRuns> EvalRuns::read(const Trainer &trainer, const std::string &path,
                                        int64_t batch, LossReduction reduction) {
  Arguments arguments = TRY(readSamples(path));
  llvm::Expected<std::vector<c10::IValue>> values = trainer.bind(arguments);
  if (!values)
    return withFormOfSamples(values.takeError(), trainer.signature());
  TrainingBatches batches = TRY(
      TrainingBatches::cut(trainer.signature(), std::move(*values),
                           SampleCut{.size = batch ? batch : std::numeric_limits<int64_t>::max()}));
  return EvalRuns(std::move(batches), reduction);
}

llvm::Expected<Evaluation> EvalRuns::evaluate(const Trainer &trainer, int64_t batch) const {
  std::vector<c10::IValue> values =
      TRY(guardTorch(ExitCode::Usage, "taking a batch", [&] { return batches_.batch(batch); }));
  Evaluation done = TRY(trainer.evaluate(values));
  if (!done.loss)
    return makeError(ExitCode::Usage, "expected the loss among the results of eval mode, got none",
                     "return the loss in eval mode as in training mode");
  return done;
}

llvm::Error EvalRuns::tryOut(const Trainer &trainer) const {
  const int64_t last = batches_.stepsPerEpoch() - 1;
  llvm::Error error = evaluate(trainer, 0).takeError();
  if (!error && last > 0)
    error = evaluate(trainer, last).takeError();
  return error ? withContext(std::move(error), "--eval-data") : llvm::Error::success();
}

llvm::Error EvalRuns::run(const Trainer &trainer, int64_t step, bool json) {
  double loss = 0, weight = 0;
  bool isMean = reduction_ == LossReduction::Mean;
  int64_t samples = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t b = 0; b < batches_.stepsPerEpoch(); ++b) {
    const Evaluation done = TRY(evaluate(trainer, b));
    // A mean weighs by what it is a mean of.
    const double part = done.count                          ? *done.count
                        : reduction_ == LossReduction::Mean ? static_cast<double>(done.samples)
                                                            : 1;
    samples += done.samples;
    if (part == 0) // nothing was counted in this batch
      continue;
    loss += *done.loss * part;
    weight += part;
    isMean = isMean || done.count;
  }
  if (isMean && weight > 0)
    loss /= weight;
  const int64_t ns = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  llvm::json::Object line{{"step", step},
                          {"loss", numberOrNull(loss)},
                          {"samples", samples},
                          {"eval_ms", inMilliseconds(static_cast<double>(ns))}};
  aboveProgress([&] {
    if (json)
      toStdout() << llvm::formatv("{0}", llvm::json::Value(llvm::json::Object{
                                             {"eval", llvm::json::Object(line)}}))
                 << '\n';
    else
      toStdout() << fmt::format("evaluation after step {}  loss {:.6g}  {}  {}\n", step, loss,
                                counted(static_cast<size_t>(samples), "sample"),
                                formatDuration(ns));
    toStdout().flush();
  });
  lines_.push_back(std::move(line));
  return llvm::Error::success();
}

} // namespace pipec

#include "tools/run/StepLines.h"

#include "ir/support/ShownStream.h"
#include "tools/report/RunReport.h"
#include "tools/report/Table.h"

namespace pipec {

void printLine(const StepLine &line) {
  std::string text = fmt::format("step {}/{}  loss {:.6g}", line.step, line.of, line.result.loss);
  if (line.result.skipped)
    text += "  skipped: not finite";
  else if (line.updates)
    text += fmt::format("  lr {:.4g}", line.result.learningRate);
  text += fmt::format("  grad norm {:.4g}  {}", line.result.gradientNorm, formatDuration(line.ns));
  if (line.samples)
    text += fmt::format("  {:.1f} samples/s", line.samplesPerSecond());
  text += "  " + formatBytes(line.peakMemory);
  aboveProgress([&] {
    toStdout() << text << '\n';
    flushStdout();
  });
}

void printJsonLine(const StepLine &line) {
  llvm::json::Object object{{"step", line.step},
                            {"loss", numberOrNull(line.result.loss)},
                            {"lr", numberOrNull(line.result.learningRate)},
                            {"step_ms", inMilliseconds(static_cast<double>(line.ns))},
                            {"samples_per_s", numberOrNull(line.samplesPerSecond())},
                            {"peak_memory_bytes", line.peakMemory},
                            {"grad_norm", numberOrNull(line.result.gradientNorm)},
                            {"skipped", line.result.skipped}};
  toStdout() << llvm::formatv("{0}", llvm::json::Value(std::move(object))) << '\n';
  flushStdout();
}

void TrainingProgress::note(int64_t done) const {
  if (!callback_)
    return;
  const auto ns = (std::chrono::steady_clock::now() - start_) / std::chrono::nanoseconds(1);
  callback_({"training", "steps", static_cast<size_t>(done), static_cast<size_t>(count_),
             done > first_ ? ns / (done - first_) * (count_ - done) : -1});
}

} // namespace pipec

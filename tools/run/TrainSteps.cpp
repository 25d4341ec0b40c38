#include "tools/run/TrainSteps.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/Elements.h"
#include "ir/values/ValueFiles.h"
#include "tools/cli/ToolMain.h"

namespace pipec {

namespace {

llvm::Expected<Arguments> argumentsOf(const StepSource &source) {
  if (!source.data.empty())
    return readSamples(source.data);
  Arguments all;
  for (const std::string &text : {source.inputs, source.targets}) {
    if (text.empty())
      continue;
    Arguments part = TRY(argumentsFromOption(text));
    all.positional.insert(all.positional.end(), part.positional.begin(), part.positional.end());
    all.keyword.insert(all.keyword.end(), part.keyword.begin(), part.keyword.end());
  }
  return all;
}

/// The elements of a list in a file, each the arguments of one micro-batch.
llvm::Expected<Trainer::Batches> readPresplit(const Trainer &trainer, const std::string &path) {
  c10::IValue value = TRY(readValue(path));
  if (!value.isList() && !value.isTuple())
    return failf(ExitCode::Usage,
                 "--presplit: expected a list with the arguments of each micro-batch in {}, got a "
                 "{}",
                 path, value.tagKind());
  const std::vector<c10::IValue> elements = elementsIn(value);
  Trainer::Batches all;
  for (size_t k = 0; k < elements.size(); ++k) {
    Arguments arguments = TRY(argumentsOfValue(fmt::format("micro-batch {}", k), elements[k]));
    llvm::Expected<std::vector<c10::IValue>> bound = trainer.bind(arguments);
    if (!bound)
      return withContext(bound.takeError(), fmt::format("micro-batch {}", k));
    all.push_back(std::move(*bound));
  }
  return all;
}

llvm::Expected<TrainingBatches> readBatches(const Trainer &trainer, const StepSource &source,
                                            uint64_t seed) {
  Arguments arguments = TRY(argumentsOf(source));
  std::vector<c10::IValue> values = TRY(trainer.bind(arguments));
  if (source.data.empty())
    return TrainingBatches::fixed(std::move(values));
  llvm::Expected<TrainingBatches> batches = TrainingBatches::cut(
      trainer.signature(), std::move(values), source.batch, source.shuffle, seed);
  return batches ? std::move(batches) : withContext(batches.takeError(), "--data");
}

} // namespace

llvm::Expected<TrainSteps> TrainSteps::read(const Trainer &trainer, const StepSource &source,
                                            uint64_t seed) {
  TrainSteps steps;
  if (source.presplit)
    steps.presplit_ = TRY(readPresplit(trainer, source.inputs));
  else
    steps.batches_ = TRY(readBatches(trainer, source, seed));
  for (const std::string &note : steps.batches_.notesOnWhole(trainer.signature()))
    printNote(note);
  for (const std::string &warning : steps.batches_.warningsOnWhole(trainer.signature()))
    printWarning(warning);
  steps.accumulate_ = source.accumulate;
  steps.batches_.setGroup(source.accumulate);
  steps.count_ = source.steps.value_or(1);
  if (!source.data.empty() && !source.steps) {
    steps.last_ = source.epochs * steps.batches_.stepsPerEpoch();
    steps.count_ = (steps.last_ + source.accumulate - 1) / source.accumulate;
  }
  return steps;
}

llvm::Expected<Trainer::Batches> TrainSteps::of(int64_t step) const {
  if (presplit_)
    return *presplit_;
  return guardTorch(ExitCode::Usage, "taking a batch",
                    [&] { return batches_.batches(step, accumulate_, last_); });
}

} // namespace pipec

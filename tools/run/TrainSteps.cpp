#include "tools/run/TrainSteps.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/values/BindArguments.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/Elements.h"
#include "ir/values/ValueFiles.h"
#include "tools/cli/ToolMain.h"

namespace pipec {

namespace {

/// Of arguments that do not fit: what the options must give.
llvm::Error explained(llvm::Error error, const Signature &signature, const StepSource &source) {
  if (!source.data.empty())
    return withContext(withFormOfSamples(std::move(error), signature), "--data");
  const std::string names = listArguments(signature.inputs);
  ErrorText text = describe(std::move(error));
  if (source.inputs.empty() && source.targets.empty())
    return makeError(text.code, "--train: expected --inputs or --data with it, got none",
                     fmt::format("the model takes {}: pass a batch with --inputs, or samples with "
                                 "--data and --batch",
                                 names));
  if (text.help.empty())
    text.help =
        fmt::format("--inputs, and after it --targets, give {}: a tuple in this order, or a "
                    "dict with these names",
                    names);
  return makeError(text.code, text.message, text.help);
}

llvm::Expected<Arguments> argumentsOf(const Trainer &trainer, const StepSource &source) {
  if (!source.data.empty())
    return readSamples(source.data);
  std::vector<std::string> texts;
  for (const std::string &text : {source.inputs, source.targets})
    if (!text.empty())
      texts.push_back(text);
  return argumentsFromOptions(texts, [&](const Arguments &shapes) -> llvm::Error {
    llvm::Expected<std::vector<c10::IValue>> values = trainer.bind(shapes);
    if (!values)
      return explained(values.takeError(), trainer.signature(), source);
    return trainer.check ? trainer.check(*values) : llvm::Error::success();
  });
}

llvm::Error notPresplit(const Signature &signature, const std::string &path,
                        const std::string &got) {
  return makeError(ExitCode::Usage,
                   fmt::format("--presplit: expected a list with the arguments of each micro-batch "
                               "in {}, got {}",
                               path, got),
                   fmt::format("save a list with a tuple ({}) for each micro-batch; leave "
                               "--presplit out for a batch that pipe-run cuts",
                               listArguments(signature.inputs)));
}

/// The elements of a list in a file, each the arguments of one micro-batch.
llvm::Expected<Trainer::Batches> readPresplit(const Trainer &trainer, const std::string &path) {
  c10::IValue value = TRY(readValue(path));
  if (!value.isList() && !value.isTuple())
    return notPresplit(trainer.signature(), path, "a " + value.tagKind());
  const std::vector<c10::IValue> elements = elementsIn(value);
  Trainer::Batches all;
  for (size_t k = 0; k < elements.size(); ++k) {
    Arguments arguments = TRY(argumentsOfValue(fmt::format("micro-batch {}", k), elements[k]));
    llvm::Expected<std::vector<c10::IValue>> bound = trainer.bind(arguments);
    if (!bound && elements[k].isTensor() && trainer.signature().inputs.size() > 1) {
      llvm::consumeError(bound.takeError()); // of one argument for many
      return notPresplit(trainer.signature(), path, fmt::format("a tensor as element {}", k));
    }
    if (!bound)
      return withContext(bound.takeError(), fmt::format("--presplit: micro-batch {}", k));
    all.push_back(std::move(*bound));
  }
  return all;
}

llvm::Expected<TrainingBatches> readBatches(const Trainer &trainer, const StepSource &source,
                                            uint64_t seed) {
  Arguments arguments = TRY(argumentsOf(trainer, source));
  llvm::Expected<std::vector<c10::IValue>> values = trainer.bind(arguments);
  if (!values)
    return explained(values.takeError(), trainer.signature(), source);
  if (source.data.empty())
    return TrainingBatches::fixed(trainer.signature(), std::move(*values));
  llvm::Expected<TrainingBatches> batches = TrainingBatches::cut(
      trainer.signature(), std::move(*values),
      {.size = source.batch, .shuffle = source.shuffle, .seed = seed, .dropLast = source.dropLast});
  return batches ? std::move(batches) : withContext(batches.takeError(), "--data");
}

} // namespace

llvm::Expected<TrainSteps> TrainSteps::read(const Trainer &trainer, const StepSource &source,
                                            uint64_t seed) {
  TrainSteps steps;
  if (source.presplit) {
    steps.presplit_ = TRY(readPresplit(trainer, source.inputs));
    steps.batches_ = TrainingBatches::presplit(trainer.signature(), *steps.presplit_);
  } else {
    steps.batches_ = TRY(readBatches(trainer, source, seed));
  }
  for (const std::string &note : steps.batches_.notesOnWhole(trainer.signature()))
    printNote(note);
  for (const std::string &warning :
       steps.batches_.warningsOnWhole(trainer.signature(), source.isArtifact))
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

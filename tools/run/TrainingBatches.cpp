#include "tools/run/TrainingBatches.h"

#include "ir/batch/ArgumentCut.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/values/BindArguments.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace pipec {

TrainingBatches TrainingBatches::fixed(const Signature &signature,
                                       std::vector<c10::IValue> values) {
  TrainingBatches batches;
  batches.samples_ = batchSizeOr(0, signature, values);
  batches.values_ = std::move(values);
  return batches;
}

TrainingBatches
TrainingBatches::presplit(const Signature &signature,
                          const std::vector<std::vector<c10::IValue>> &microBatches) {
  TrainingBatches batches;
  batches.presplit_.emplace();
  for (const std::vector<c10::IValue> &values : microBatches)
    batches.presplit_->push_back(batchSizeOr(0, signature, values));
  return batches;
}

llvm::Expected<TrainingBatches> TrainingBatches::cut(const Signature &signature,
                                                     std::vector<c10::IValue> values,
                                                     const SampleCut &how) {
  TrainingBatches batches;
  const bool known = llvm::any_of(
      signature.inputs, [](const InputSpec &input) { return input.batchDim.has_value(); });
  batches.assumed_ = !known;
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<int64_t> wanted = signature.inputs[i].batchDim;
    if (!known && !signature.inputs[i].givenWhole)
      wanted = 0;
    batches.dims_.push_back(std::nullopt);
    if (!wanted || !values[i].isTensor() || values[i].toTensor().dim() <= *wanted)
      continue;
    const int64_t samples = values[i].toTensor().size(*wanted);
    if (known && samples == 0)
      return failf(ExitCode::Usage, "{}: expected samples, got an empty tensor",
                   signature.inputs[i].name);
    if (batches.samples_ == 0) {
      batches.samples_ = samples;
      batches.first_ = signature.inputs[i].name;
    }
    // One with the samples of a batch is whole in each.
    if (known && samples != batches.samples_ && samples != how.size)
      return makeError(ExitCode::Usage,
                       fmt::format("expected as many samples in {} as in {}, {}, got {}",
                                   signature.inputs[i].name, batches.first_, batches.samples_,
                                   samples),
                       "give both the same number of samples");
    if (samples == batches.samples_)
      batches.dims_.back() = wanted;
  }
  if (batches.samples_ == 0)
    return makeError(ExitCode::Usage, "expected tensors with samples, got none",
                     "save a pair (inputs, targets) with torch.save");
  if (how.dropLast && how.size > batches.samples_)
    return makeError(ExitCode::Usage,
                     fmt::format("--drop-last: expected at most {} as --batch, the number of "
                                 "samples, got {}",
                                 batches.samples_, how.size),
                     "no batch is complete: pass a smaller --batch, or leave --drop-last out");
  batches.values_ = std::move(values);
  batches.size_ = std::min(how.size, batches.samples_);
  batches.shuffle_ = how.shuffle;
  batches.seed_ = how.seed;
  batches.drops_ = how.dropLast && batches.samples_ % batches.size_ != 0;
  return batches;
}

int64_t TrainingBatches::leastSamples() const {
  if (size_ == 0)
    return 0;
  return drops_ || samples_ % size_ == 0 ? size_ : samples_ % size_;
}

/// "t (3)": an argument, or a part of one, with the size of its first dimension.
static std::string withRows(const std::string &name, const at::Tensor &tensor) {
  return tensor.dim() > 0 ? fmt::format("{} ({})", name, tensor.size(0)) : name;
}

std::vector<std::string> TrainingBatches::notesOnWhole(const Signature &signature) const {
  std::vector<std::string> whole, inside, notes;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const std::string &name = signature.inputs[i].name;
    if (values_[i].isTensor() && !dims_[i] && assumed_)
      whole.push_back(withRows(name, values_[i].toTensor()));
    if (values_[i].isTensor())
      continue;
    for (const auto &[path, tensor] : tensorsByPath(values_[i]))
      if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == samples_)
        inside.push_back(withRows(name + "." + path, tensor));
  }
  if (!whole.empty())
    notes.push_back(fmt::format("--data: each step gets all of {}, whose first dimension is not "
                                "that of the {} samples; --batch-dim names other dimensions",
                                llvm::join(whole, ", "), samples_));
  if (!inside.empty())
    notes.push_back(fmt::format("--data: each step gets all of {}: only arguments that are tensors "
                                "are cut into steps, and not tensors in dicts, lists and tuples",
                                llvm::join(inside, ", ")));
  return notes;
}

std::vector<std::string> TrainingBatches::warningsOnWhole(const Signature &signature,
                                                          bool isArtifact) const {
  std::vector<std::string> warnings;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (assumed_ || isCut(input) || input.givenWhole || !values_[i].isTensor())
      continue;
    const at::Tensor tensor = values_[i].toTensor();
    if (!tensor.defined() || tensor.dim() == 0 || samples_ <= 1 || tensor.size(0) != samples_)
      continue;
    const std::string rows = fmt::format("all {} rows of {}, as many as the {} samples of {}",
                                         samples_, input.name, samples_, first_);
    warnings.push_back(
        isArtifact ? fmt::format("--data: each micro-batch gets {}, because the plan gives it "
                                 "whole; if each row belongs to a sample, compile with --batch-dim "
                                 "{}=0, otherwise with {}=none",
                                 rows, input.name, input.name)
                   : fmt::format("--data: each step gets {}, because --batch-dim does not name it; "
                                 "if each row belongs to a sample, pass {}=0, too, otherwise "
                                 "{}=none",
                                 rows, input.name, input.name));
  }
  return warnings;
}

int64_t TrainingBatches::stepsPerEpoch() const {
  if (size_ == 0)
    return 1;
  return drops_ ? samples_ / size_ : (samples_ + size_ - 1) / size_;
}

/// Fisher and Yates; the standard's own shuffle differs between libraries.
void TrainingBatches::drawOrder(int64_t epoch) const {
  order_.resize(static_cast<size_t>(samples_));
  std::iota(order_.begin(), order_.end(), int64_t(0));
  std::seed_seq words{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32),
                      static_cast<uint32_t>(epoch)};
  std::mt19937_64 random(words);
  for (size_t left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[random() % left]);
  drawnEpoch_ = epoch;
}

std::vector<std::vector<c10::IValue>> TrainingBatches::batches(int64_t step, int64_t group,
                                                               int64_t last) const {
  const int64_t begin = step * group, end = begin + group;
  std::vector<std::vector<c10::IValue>> result;
  for (int64_t b = begin; b < (last ? std::min(end, last) : end); ++b)
    result.push_back(batch(b));
  return result;
}

std::vector<c10::IValue> TrainingBatches::batch(int64_t step) const {
  if (size_ == 0)
    return values_;
  const int64_t epoch = step / stepsPerEpoch(), begin = step % stepsPerEpoch() * size_;
  const int64_t length = std::min(size_, samples_ - begin);
  if (shuffle_ && epoch != drawnEpoch_)
    drawOrder(epoch);
  std::vector<c10::IValue> result = values_;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!dims_[i])
      continue;
    const at::Tensor &all = result[i].toTensor();
    result[i] =
        shuffle_
            ? all.index_select(
                  *dims_[i], at::tensor(llvm::ArrayRef<int64_t>(order_).slice(begin, length).vec()))
            : all.narrow(*dims_[i], begin, length);
  }
  return result;
}

std::map<std::string, std::string> TrainingBatches::position(int64_t steps) const {
  std::map<std::string, std::string> place = {{"data", size_ == 0 ? "one batch" : "samples"},
                                              {"batches_per_step", std::to_string(group_)}};
  if (samples_ != 0)
    place["samples"] = std::to_string(samples_);
  if (presplit_ && !llvm::is_contained(*presplit_, 0))
    place["samples"] = fmt::format("{}", fmt::join(*presplit_, ","));
  if (size_ == 0) {
    place["presplit"] = presplit_ ? "true" : "false";
    return place;
  }
  steps *= group_; // of the data
  place["batch"] = std::to_string(size_);
  place["shuffle"] = shuffle_ ? "true" : "false";
  if (drops_) // earlier versions did not write it
    place["drop_last"] = "true";
  place["epoch"] = std::to_string(steps / stepsPerEpoch());
  place["step_of_epoch"] = std::to_string(steps % stepsPerEpoch());
  return place;
}

llvm::Error TrainingBatches::checkPosition(const std::map<std::string, std::string> &saved) const {
  const std::map<std::string, std::string> now = position(0);
  const std::pair<const char *, const char *> fixed[] = {
      {"data", "--data"},       {"samples", "--data"},        {"batch", "--batch"},
      {"shuffle", "--shuffle"}, {"drop_last", "--drop-last"}, {"batches_per_step", "--accumulate"}};
  for (const auto &[key, option] : fixed) {
    if (size_ == 0 && key == std::string("samples")) // a batch has no position: see otherBatch()
      continue;
    const auto before = saved.find(key), after = now.find(key);
    const bool isDropLast = key == std::string("drop_last");
    const std::string absent = isDropLast ? "false" : "none";
    const std::string expected = before == saved.end() ? absent : before->second;
    const std::string got = after == now.end() ? absent : after->second;
    const std::string name = isDropLast || option == std::string("--") + key
                                 ? option
                                 : fmt::format("{}: {}", option, key);
    if (expected != got)
      return makeError(
          ExitCode::Usage,
          fmt::format("{}: expected {}, as in the checkpoint, got {}", name, expected, got),
          "the position in the data counts steps of the same samples; to train on "
          "with others, merge the checkpoint into the model (pipe-merge "
          "--checkpoint) and begin anew");
  }
  return llvm::Error::success();
}

std::string TrainingBatches::otherBatch(const std::map<std::string, std::string> &saved) const {
  if (size_ != 0)
    return "";
  const std::map<std::string, std::string> now = position(0);
  auto differs = [&](const char *key) { // where both are known
    const auto before = saved.find(key), after = now.find(key);
    return before != saved.end() && after != now.end() && before->second != after->second;
  };
  if (differs("presplit"))
    return fmt::format("--presplit: this run {} it, the checkpoint was written {} it",
                       presplit_ ? "has" : "does not have", presplit_ ? "without" : "with");
  if (!differs("samples"))
    return "";
  if (presplit_)
    return fmt::format("--presplit: this run has micro-batches of {} samples, the checkpoint was "
                       "written with {}",
                       now.at("samples"), saved.at("samples"));
  return fmt::format("--inputs: this run has a batch of {}, the checkpoint was written with {}",
                     now.at("samples"), saved.at("samples"));
}

llvm::Expected<Arguments> readSamples(const std::string &path) {
  c10::IValue value = TRY(readValue(path));
  const bool isPair = value.isTuple() && value.toTupleRef().elements().size() == 2;
  if (!isPair)
    return argumentsOfValue(path, value);
  Arguments all;
  for (const c10::IValue &part : value.toTupleRef().elements()) {
    Arguments arguments = TRY(argumentsOfValue(path, part));
    all.positional.insert(all.positional.end(), arguments.positional.begin(),
                          arguments.positional.end());
    all.keyword.insert(all.keyword.end(), arguments.keyword.begin(), arguments.keyword.end());
  }
  return all;
}

llvm::Error withFormOfSamples(llvm::Error error, const Signature &signature) {
  ErrorText text = describe(std::move(error));
  const std::string names = listArguments(signature.inputs);
  if (text.help.empty() && !signature.inputs.empty())
    text.help = fmt::format("save one value with all samples for each of {0}: torch.save(({0}), "
                            "FILE), or a dict with these names",
                            names);
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec

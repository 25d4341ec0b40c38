#include "runtime/checkpoint/TrainingRecord.h"

#include "ir/support/Version.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

namespace {

struct Setting {
  const char *name;   // in checkpoint.json
  const char *option; // of pipe-run
  std::string (*text)(const TrainingRecord &record);
};

constexpr const char *kMicroBatches = "microbatches";
/// Beside it, if the data gave the micro-batches: no option says how many those of a run are.
constexpr const char *kPresplit = "presplit";

/// Every option that changes the numbers of a training, except the seed and the position in the
/// data, which have keys of their own. A run with another value of one of these gets a note.
const Setting kSettings[] = {
    {"lr_schedule", "--lr-schedule",
     [](const TrainingRecord &record) {
       return record.rates.optimizer ? record.rates.rates.text() : std::string("none");
     }},
    {"clip_norm", "--clip-norm",
     [](const TrainingRecord &record) { return fmt::format("{}", record.options.clipNorm); }},
    {"freeze", "--freeze",
     [](const TrainingRecord &record) { return llvm::join(record.options.freeze, ","); }},
    {"loss_reduction", "--loss-reduction",
     [](const TrainingRecord &record) {
       return std::string(record.options.reduction == LossReduction::Sum ? "sum" : "mean");
     }},
    {"precision", "--precision",
     [](const TrainingRecord &record) {
       return std::string(record.options.precision == Precision::Bf16 ? "bf16" : "f32");
     }},
    {"batch_norm", "--batch-norm",
     [](const TrainingRecord &record) {
       return std::string(record.options.batchNorm == BatchNorm::Deferred ? "deferred"
                                                                          : "per-micro-batch");
     }},
    {kMicroBatches, "--microbatches",
     [](const TrainingRecord &record) { return std::to_string(record.microBatches); }},
    {"threads", "--threads",
     [](const TrainingRecord &record) { return std::to_string(record.threads); }},
};

/// "adamw,lr=0.01,...,group *.bias,weight_decay=0".
std::string optimizerText(const TrainingRecord &record) {
  std::string text = record.rates.optimizer ? toString(*record.rates.optimizer) : "none";
  for (const std::string &group : record.options.groups)
    text += ",group " + group;
  return text;
}

/// "adamw,lr=0.01,..." without the learning rate, which a run may change.
std::string withoutRate(const std::string &text) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  llvm::StringRef(text).split(words, ',');
  llvm::erase_if(words, [](llvm::StringRef word) { return word.take_front(3) == "lr="; });
  return llvm::join(words, ",");
}

} // namespace

llvm::Expected<CheckpointText> describeTraining(const TrainingRecord &record,
                                                const CheckpointOptions &options) {
  if (options.keep < 0)
    return failf(ExitCode::Usage, "keep: expected at least 1, or 0 for all checkpoints, got {}",
                 options.keep);
  CheckpointText text;
  text.toolVersion = pipecVersion();
  text.torchVersion = torchVersion();
  text.step = static_cast<int64_t>(record.steps);
  text.seed = record.seed;
  text.skippedInARow = record.skipped.inARow();
  text.settings["optimizer"] = optimizerText(record);
  for (const Setting &setting : kSettings)
    text.settings[setting.name] = setting.text(record);
  if (record.presplit)
    text.settings[kPresplit] = "true";
  text.program = options.program;
  return text;
}

llvm::Expected<std::vector<std::string>> compareSettings(const CheckpointText &text,
                                                         const TrainingRecord &record) {
  std::vector<std::string> differences;
  const auto saved = text.settings.find("optimizer");
  const std::string now = optimizerText(record);
  if (saved == text.settings.end())
    return failf(ExitCode::BadArtifact, "{}: settings: expected optimizer, got none",
                 kCheckpointTextName);
  if (withoutRate(saved->second) != withoutRate(now))
    return makeError(
        ExitCode::Usage,
        fmt::format("--optimizer: expected that of the checkpoint, {}, got {}", saved->second, now),
        "only learning rates may differ; to train on with another optimizer, merge the checkpoint "
        "into the model (pipe-merge --checkpoint) and begin anew");
  auto compare = [&](const char *option, const std::string &before, const std::string &after) {
    if (before != after)
      differences.push_back(fmt::format("{}: this run has {}, the checkpoint was written with {}",
                                        option, after.empty() ? "none" : after,
                                        before.empty() ? "none" : before));
  };
  compare("--optimizer", saved->second, now);
  for (const Setting &setting : kSettings) {
    const auto found = text.settings.find(setting.name);
    if (found == text.settings.end())
      continue;
    if (llvm::StringRef(setting.name) == kMicroBatches && text.settings.count(kPresplit))
      continue;
    compare(setting.option, found->second, setting.text(record));
  }
  return differences;
}

ResumedTraining resumeRecord(const OpenedCheckpoint &checkpoint, TrainingRecord &record,
                             std::vector<std::string> differences) {
  record.steps = static_cast<uint64_t>(checkpoint.text.step);
  record.seed = checkpoint.text.seed;
  record.skipped.setInARow(checkpoint.text.skippedInARow);
  return {checkpoint.directory,    checkpoint.text.step,   checkpoint.text.seed,
          checkpoint.text.program, std::move(differences), checkpoint.warnings,
          checkpoint.passedOver};
}

} // namespace pipec

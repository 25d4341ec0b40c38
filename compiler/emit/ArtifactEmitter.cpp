#include "compiler/emit/ArtifactEmitter.h"

#include "compiler/emit/StageEmitter.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/plan/PlanToJson.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/schedule/Program.h"
#include "ir/support/OwnFault.h"
#include "ir/support/Try.h"
#include "ir/text/GraphText.h"

#include <deque>
#include <future>

namespace pipec {

namespace {

std::string textOf(const torch::jit::Graph &graph) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printGraph(graph, os);
  return os.str();
}

/// Stage files that are still being written while the next one is made.
class FilesUnderWay {
public:
  explicit FilesUnderWay(ArtifactWriter &writer) : writer_(writer) {}
  FilesUnderWay(const FilesUnderWay &) = delete;
  FilesUnderWay &operator=(const FilesUnderWay &) = delete;
  ~FilesUnderWay() { // an earlier error counts
    while (!files_.empty())
      llvm::consumeError(settleFirst());
  }

  llvm::Error add(const std::string &name, std::unique_ptr<StageFile> file) {
    // Each has one working thread; with few of them the last one would run alone for long.
    constexpr size_t kMost = 7;
    files_.push_back({name, std::async(std::launch::async,
                                       [file = std::move(file)] { return file->finish(); })});
    return settle(kMost);
  }
  llvm::Error settleAll() { return settle(0); }

private:
  struct File {
    std::string name;
    std::future<llvm::Expected<std::string>> digest;
  };

  llvm::Error settle(size_t left) {
    while (files_.size() > left)
      TRY(settleFirst());
    return llvm::Error::success();
  }

  llvm::Error settleFirst() {
    File file = std::move(files_.front());
    files_.pop_front();
    std::string digest = TRY(file.digest.get());
    writer_.settle(file.name, std::move(digest));
    return llvm::Error::success();
  }

  ArtifactWriter &writer_;
  std::deque<File> files_;
};

} // namespace

llvm::Error emitStages(const StagedModel &model, const std::shared_ptr<StableBytes> &stable,
                       int64_t pastCacheFrom, ArtifactWriter &writer) {
  const bool pastCache = stable->totalBytes() >= static_cast<size_t>(pastCacheFrom);
  // Before the large files, because syncing a small file may have to wait for those.
  for (const Stage &stage : model.stages) {
    llvm::StringRef name = stage.plan.file;
    name.consume_back(".pt");
    TRY(writer.write(name.str() + ".ir", textOf(*stage.graph)));
  }
  FilesUnderWay files(writer);
  for (size_t i = 0; i < model.stages.size(); ++i) {
    const std::string &name = model.stages[i].plan.file;
    auto file = std::make_unique<StageFile>(writer.directory() + "/" + name, stable, pastCache);
    TRY(emitStage(model, i, file->sink()));
    TRY(files.add(name, std::move(file)));
  }
  return files.settleAll();
}

llvm::Error emitPlan(const Plan &plan, const Schedule &schedule, ArtifactWriter &writer) {
  TRY(writer.write("schedule.csv", toCsv(schedule)));
  TRY(writer.write("plan.json", toJson(plan)));
  return writer.writeManifest();
}

namespace {

std::string differingPart(const Plan &written, const Plan &read) {
  if (!(written.signature == read.signature)) {
    const Signature &a = written.signature, &b = read.signature;
    if (a.inputs != b.inputs)
      return "the arguments";
    if (!(a.outputs == b.outputs))
      return "the tree of the result";
    for (size_t l = 0; l < std::min(a.leaves.size(), b.leaves.size()); ++l)
      if (!(a.leaves[l] == b.leaves[l]))
        return "output " + std::to_string(l);
    return "its method, batch or number of outputs";
  }
  for (size_t s = 0; s < std::min(written.stages.size(), read.stages.size()); ++s)
    if (!(written.stages[s] == read.stages[s]))
      return "stage " + std::to_string(s);
  for (size_t c = 0; c < std::min(written.channels.size(), read.channels.size()); ++c)
    if (!(written.channels[c] == read.channels[c]))
      return "channel " + written.channels[c].name;
  if (!(written.obligations == read.obligations))
    return "its obligations";
  return "its header, numbers of entries or ties";
}

} // namespace

llvm::Expected<Plan> readBackPlan(const std::string &directory, const Plan &written) {
  llvm::Expected<Artifact> artifact = openArtifactPlan(directory);
  if (!artifact)
    return ownFault("the plan as read back", artifact.takeError());
  if (!(artifact->plan == written))
    return makeError(ExitCode::Internal,
                     "the plan as read back is not the plan that was written: " +
                         differingPart(written, artifact->plan));
  if (llvm::Expected<Program> program = checkSchedule(artifact->scheduleCsv, artifact->plan);
      !program)
    return ownFault("the schedule as read back", program.takeError());
  return std::move(artifact->plan);
}

} // namespace pipec

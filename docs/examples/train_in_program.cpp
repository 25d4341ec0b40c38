// Training a model as a pipeline from a C++ program: compile, train some steps, evaluate, read the
// weights.
//
//   train_in_program MODEL.pt BATCH.pt OUT.pipe       MODEL.pt returns its loss
#include "llvm/Support/raw_ostream.h"

#include <pipec/Compiler.h>
#include <pipec/Pipeline.h>
#include <pipec/ValueTree.h>

using namespace pipec;

namespace {

llvm::Error train(const std::string &model, const std::string &batch, const std::string &artifact) {
  llvm::Expected<Compiler> compiler = Compiler::load(model);
  if (!compiler)
    return compiler.takeError();
  CompileOptions options;
  options.mode = Mode::Train;
  options.trainingFlag = TrainingFlag::True;
  options.evaluation = true; // stages in eval mode, for evaluations between steps
  options.stages = 4;
  options.cost = AnalyticCosts();
  options.inputs = batch;
  if (llvm::Expected<CompileReport> report = compiler->compile(options, artifact, /*force=*/true);
      !report)
    return report.takeError();

  PipelineOptions running;
  running.microBatches = 4;
  running.scheduleName = "zb-h1";
  running.training.emplace();
  running.training->optimizer = "adamw,lr=0.01";
  running.training->clipNorm = 1;
  running.training->evaluation = artifact;
  llvm::Expected<Pipeline> pipeline = Pipeline::load(artifact, running);
  if (!pipeline)
    return pipeline.takeError();
  llvm::Expected<ValueTree> arguments = ValueTree::read(batch);
  if (!arguments)
    return arguments.takeError();
  for (int step = 0; step < 5; ++step) {
    llvm::Expected<TrainedStep> done = pipeline->step(*arguments);
    if (!done)
      return done.takeError();
    llvm::outs() << "loss " << done->loss << '\n';
  }
  llvm::Expected<Evaluation> evaluated = pipeline->evaluate(*arguments);
  if (!evaluated)
    return evaluated.takeError();
  llvm::outs() << "in eval mode " << evaluated->loss.value_or(0) << " over " << evaluated->samples
               << " samples\n";
  // Per parameter a dict, such as "layers.0.weight": {"exp_avg", "exp_avg_sq", "step"}.
  llvm::outs() << "optimizer state of " << pipeline->optimizerState().size() << " parameters\n";
  // Another process could continue here; its next step has the bits of this one's.
  const std::string checkpoints = artifact + ".checkpoints";
  if (llvm::Error error = pipeline->saveCheckpoint(checkpoints))
    return error;
  llvm::Expected<Pipeline> again = Pipeline::load(artifact, running);
  if (!again)
    return again.takeError();
  llvm::Expected<ResumedTraining> resumed = again->resume(checkpoints);
  if (!resumed)
    return resumed.takeError();
  llvm::outs() << "continuing after step " << resumed->step << '\n';
  for (Pipeline *each : {&*pipeline, &*again}) {
    llvm::Expected<TrainedStep> done = each->step(*arguments);
    if (!done)
      return done.takeError();
    llvm::outs() << "loss " << done->loss << '\n';
  }
  // A dict for torch.load and load_state_dict.
  return pipeline->state().write(artifact + ".state.pt");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    llvm::errs() << "usage: train_in_program MODEL.pt BATCH.pt OUT.pipe\n";
    return static_cast<int>(ExitCode::Usage);
  }
  llvm::Error error = train(argv[1], argv[2], argv[3]);
  if (!error)
    return static_cast<int>(ExitCode::Success);
  ErrorText text = describe(std::move(error));
  llvm::errs() << "error: " << text.message << '\n';
  if (!text.help.empty())
    llvm::errs() << "help: " << text.help << '\n';
  return static_cast<int>(text.code);
}

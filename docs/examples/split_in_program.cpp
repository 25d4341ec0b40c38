// Splitting and running a model from a C++ program: cuts by module name and by predicate, one batch
// through the stages.
//
//   split_in_program MODEL.pt INPUTS.pt OUT.pipe
#include "llvm/Support/raw_ostream.h"

#include <pipec/Compiler.h>
#include <pipec/Pipeline.h>
#include <pipec/ValueTree.h>

using namespace pipec;

namespace {

/// Every step returns an error that says what went wrong, in which stage, and what may help.
llvm::Error splitAndRun(const std::string &model, const std::string &inputs,
                        const std::string &artifact) {
  llvm::Expected<Compiler> compiler = Compiler::load(model);
  if (!compiler)
    return compiler.takeError();

  // A cut before every fourth linear layer. AtModule{"encoder.layers.6"} cuts before a module,
  // AtMarker{} at the author's pipe_split.
  size_t linears = 0;
  CompileOptions options;
  options.cuts.push_back(
      [&](const NodeView &node) { return node.op == "aten::linear" && linears++ % 4 == 3; });
  options.inputs = inputs;
  // Two steps, to look at the report before anything is saved; compile(options, artifact) is both
  // in one, without a copy of the weights.
  llvm::Expected<Compiled> compiled = compiler->compile(options);
  if (!compiled)
    return compiled.takeError();
  const Plan &plan = compiled->report().plan;
  for (const StagePlan &stage : plan.stages)
    llvm::outs() << stage.file << ": " << stage.firstModule << " .. " << stage.lastModule << ", "
                 << stage.parameterBytes << " bytes\n";
  if (llvm::Error error = compiled->save(artifact, /*force=*/true))
    return error;

  PipelineOptions running;
  running.microBatches = 2;
  llvm::Expected<Pipeline> pipeline = Pipeline::load(artifact, running);
  if (!pipeline)
    return pipeline.takeError();
  // From memory: ValueTree::ofTensors({{"float32", {8, 16}, data, bytes}}).
  llvm::Expected<ValueTree> arguments = ValueTree::read(inputs);
  if (!arguments)
    return arguments.takeError();
  StepStats stats;
  llvm::Expected<ValueTree> result = pipeline->infer(*arguments, &stats);
  if (!result)
    return result.takeError();
  if (llvm::Error error = result->forEachTensor([](const TensorView &tensor) {
        llvm::outs() << "result: " << tensor.dtype << " with " << tensor.bytes << " bytes\n";
      }))
    return error;
  llvm::outs() << plan.stages.size() << " stages took " << stats.makespanNs / 1000 << " us\n";
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    llvm::errs() << "usage: split_in_program MODEL.pt INPUTS.pt OUT.pipe\n";
    return static_cast<int>(ExitCode::Usage);
  }
  llvm::Error error = splitAndRun(argv[1], argv[2], argv[3]);
  if (!error)
    return 0;
  ErrorText text = describe(std::move(error));
  llvm::errs() << "error: " << text.message << '\n';
  if (!text.help.empty())
    llvm::errs() << "help: " << text.help << '\n';
  return static_cast<int>(text.code);
}

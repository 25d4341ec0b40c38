#include "compiler/CompileReproducer.h"

#include "ir/support/Try.h"

namespace pipec {

namespace {

std::string optionsText(const CompileOptions &options) {
  std::string text =
      fmt::format("method {}\nstages {}\nsplit {}\ninputs {}\nmicro-batches {}\n", options.method,
                  options.stages, options.split ? toString(*options.split).str() : "default",
                  options.inputs.empty() ? "none" : options.inputs, options.microBatches);
  for (const auto &[name, dim] : options.batchDims)
    text += fmt::format("batch-dim {}={}\n", name, dim ? std::to_string(*dim) : "none");
  return text;
}

} // namespace

std::string reproducerAbout(const std::string &modelPath, const CompileOptions &options) {
  return fmt::format(
      "model {}\n{}\n"
      "passes/ holds the model after each pass that changed it. A pass that fails is replayed on\n"
      "the text before it, from lower-attributes on (text of before names the model's classes):\n\n"
      "    pipe-opt passes/NN-PASS.ir --passes 'the passes of pipeline.txt after PASS'\n"
      "\nWith --reproducer-weights the model is here too, as model.pt, and the command or\n\n"
      "    pipe-opt model.pt --passes \"$(cat pipeline.txt)\"\n\n"
      "starts from it.\n",
      modelPath, optionsText(options));
}

llvm::Expected<Reproducer> beginReproducer(const std::string &modelPath,
                                           const CompileOptions &options,
                                           const std::vector<std::string> &command,
                                           const ErrorText &error) {
  Reproducer made = TRY(Reproducer::begin(options.reproducers));
  TRY(made.write("README.txt",
                 reproducerReadme(error, command, reproducerAbout(modelPath, options))));
  return made;
}

} // namespace pipec

#include "compiler/Reproducer.h"

#include "compiler/Version.h"
#include "ir/plan/Error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

namespace {

constexpr int kMostReproducers = 1000;

llvm::Error cannot(const std::string &path, std::error_code code) {
  return failf(ExitCode::IO, "{}: cannot write: {}", path, code.message());
}

llvm::Error writeText(const std::string &path, const std::string &text) {
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (code)
    return cannot(path, code);
  out << text;
  out.close();
  code = out.error();
  out.clear_error();
  return code ? cannot(path, code) : llvm::Error::success();
}

std::string optionsText(const CompileOptions &options) {
  std::string text =
      fmt::format("method {}\nstages {}\nsplit {}\ninputs {}\nmicro-batches {}\n", options.method,
                  options.stages, options.split.empty() ? "default" : options.split,
                  options.inputs.empty() ? "none" : options.inputs, options.microBatches);
  for (const auto &[name, dim] : options.batchDims)
    text += fmt::format("batch-dim {}={}\n", name, dim ? std::to_string(*dim) : "none");
  if (!options.command.empty())
    text += "command " + llvm::join(options.command, " ") + "\n";
  return text;
}

} // namespace

llvm::Expected<std::string> makeReproducer(const std::string &parent, const std::string &modelPath,
                                           const CompileOptions &options, const ErrorText &error) {
  std::string directory;
  std::error_code code = std::make_error_code(std::errc::file_exists);
  for (int i = 1; i <= kMostReproducers && code == std::errc::file_exists; ++i) {
    directory = fmt::format("{}/pipec-reproducer-{}", parent, i);
    code = llvm::sys::fs::create_directory(directory, /*IgnoreExisting=*/false);
  }
  if (!code)
    code = llvm::sys::fs::create_directory(directory + "/passes");
  if (code)
    return cannot(directory, code);
  std::string readme = fmt::format(
      "An internal error of pipec. Please report it with this directory; it holds no weights.\n\n"
      "error: {}\n\npipec {}, LibTorch {}\nmodel {}\n{}\n"
      "passes/ holds the model after each pass that changed it. A pass that fails is replayed on\n"
      "the text before it:\n\n"
      "    pipe-opt passes/NN-PASS.ir --passes 'the passes of pipeline.txt after PASS'\n",
      error.message, pipecVersion(), torchVersion(), modelPath, optionsText(options));
  if (llvm::Error failed = writeText(directory + "/README.txt", readme))
    return std::move(failed);
  if (llvm::Error failed =
          writeText(directory + "/pipeline.txt", Compiler::pipelineText(options) + "\n"))
    return std::move(failed);
  return directory;
}

} // namespace pipec

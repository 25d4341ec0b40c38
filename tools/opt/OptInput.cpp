#include "tools/opt/OptInput.h"

#include "compiler/Import.h"
#include "compiler/PassDumps.h"
#include "ir/support/Llvm.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "ir/support/WriteFile.h"
#include "ir/text/ScriptSource.h"
#include "llvm/Support/Path.h"
#include "passes/PassManager.h"

namespace pipec {

namespace {

llvm::Expected<std::vector<ParsedModel>> alone(llvm::Expected<Model> read) {
  Model model = TRY(std::move(read));
  std::vector<ParsedModel> models;
  models.push_back({std::move(model), {}, {}});
  return models;
}

} // namespace

llvm::Expected<std::vector<ParsedModel>> OptInput::read() {
  if (isModule() && torchscript)
    return makeError(ExitCode::Usage,
                     "--torchscript: expected TorchScript source, got " + file + ", a saved module",
                     "leave --torchscript out");
  if (isModule())
    return alone(importModel(file, method));
  TRY(readText());
  const auto named = [&](llvm::Error error) { return withContext(std::move(error), file); };
  if (torchscript) {
    llvm::Expected<Model> model = modelFromSource(text_, method);
    return model ? alone(std::move(model)) : named(model.takeError());
  }
  llvm::Expected<std::vector<ParsedModel>> models = parse();
  return models ? std::move(models) : named(models.takeError());
}

ReproducerParts OptInput::parts(const std::string &passes) {
  ReproducerParts parts;
  parts.files.emplace_back("pipeline.txt", passes + "\n");
  if (isModule()) {
    parts.about = "model " + file +
                  "\n\npasses/ holds the model after each pass that changed it. A pass that fails "
                  "is replayed on\nthe text before it:\n\n"
                  "    pipe-opt passes/NN-PASS.ir --passes 'the passes of pipeline.txt after "
                  "PASS'\n";
    return parts;
  }
  if (text_.empty() && file != "-") // after a crash; an unreadable file stays empty here
    llvm::consumeError(readText());
  if (!namesWeights())
    parts.files.emplace_back(inputName(), text_);
  parts.about = "\nThe input is replayed by\n\n    pipe-opt " + inputName() +
                (torchscript ? " --torchscript --method " + method : "") +
                " --passes \"$(cat pipeline.txt)\"\n";
  return parts;
}

llvm::Error OptInput::trace(const std::string &directory, const std::string &passes,
                            bool verifyEach) {
  if (isModule())
    dumpPasses(directory, passes, verifyEach);
  else if (namesWeights())
    if (std::error_code code = writeFile(directory + "/" + inputName(), textWithoutWeights()))
      return failf(ExitCode::IO, "{}: cannot write: {}", inputName(), code.message());
  return llvm::Error::success();
}

bool OptInput::isModule() const { return endsWith(file, ".pt"); }

bool OptInput::namesWeights() const {
  return !torchscript && llvm::StringRef(text_).contains("data=@");
}

std::string OptInput::inputName() const { return torchscript ? "input.ts" : "input.ir"; }

llvm::Error OptInput::readText() {
  TextFormat format;
  format.what = "a model as text";
  format.code = ExitCode::Unreadable;
  format.mayBeStdin = true;
  text_ = TRY(readTextFile(file, format));
  if (file == "-" && text_.empty())
    return makeError(ExitCode::Usage, "standard input: expected a model as text, got nothing",
                     "name a file: pipe-opt FILE");
  return llvm::Error::success();
}

llvm::Expected<std::vector<ParsedModel>> OptInput::parse() const {
  std::string directory = dataDirectory;
  if (directory.empty())
    directory = llvm::sys::path::parent_path(file).str();
  llvm::Expected<std::vector<ParsedModel>> models =
      parseModels(text_, directory.empty() ? "." : directory);
  if (models && models->empty())
    return makeError(ExitCode::Unreadable, "expected at least one model, got none",
                     "docs/ir.md describes the text");
  return models;
}

/// The text as read, without references to weights in other files.
std::string OptInput::textWithoutWeights() const {
  llvm::Expected<std::vector<ParsedModel>> models = parse();
  if (!models) { // the reproducer is of this error
    llvm::consumeError(models.takeError());
    return text_;
  }
  std::string all;
  for (const ParsedModel &parsed : *models)
    if (llvm::Expected<std::string> text = PassDumps::text(parsed.model, parsed.costs))
      all += (all.empty() ? "" : "# -----\n") + *text;
    else
      llvm::consumeError(text.takeError()); // the others may reproduce the failure
  return all;
}

/// A module has no text before its calls are inlined, so this writes its text after each pass that
/// changed it.
void OptInput::dumpPasses(const std::string &directory, const std::string &passes,
                          bool verifyEach) const {
  PassDumps dumps(directory + "/passes");
  PassManagerOptions options;
  options.verifyEach = verifyEach;
  options.afterPass = [&](const PassRun &run) { return dumps.write(run); };
  PassManager manager(options);
  llvm::Expected<Model> imported = importModel(file, method);
  llvm::Error error = imported ? manager.addPipeline(passes) : imported.takeError();
  if (!error) {
    AnyModel model = std::move(*imported);
    error = manager.run(model).takeError();
  }
  llvm::consumeError(std::move(error)); // the reason of the failure is known already
}

} // namespace pipec

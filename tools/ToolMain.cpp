#include "tools/ToolMain.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/CommandLine.h"
#include "tools/Pages.h"
#include "tools/Signals.h"

#include <torch/headeronly/version.h>

#include <cerrno>
#include <csignal>

namespace pipec {
namespace {

void printError(const ErrorText &text) {
  llvm::outs().flush();
  llvm::errs() << "error: " << text.message << "\n";
  if (!text.help.empty())
    llvm::errs() << "help: " << text.help << "\n";
}

ExitCode report(llvm::Error error) {
  waitIfStopping();
  ErrorText text = describe(std::move(error));
  printError(text);
  return text.code;
}

ExitCode runTool(llvm::ArrayRef<const char *> arguments, const ToolInfo &info,
                 llvm::function_ref<llvm::Expected<ExitCode>()> body) {
  if (asksFor(arguments, "--help") || asksFor(arguments, "-h")) {
    llvm::outs() << helpText(info);
    return ExitCode::Success;
  }
  if (asksFor(arguments, "--version")) {
    llvm::outs() << info.name << " " << PIPEC_VERSION << " (LibTorch " << TORCH_VERSION << ", LLVM "
                 << LLVM_VERSION_STRING << ")\n";
    return ExitCode::Success;
  }
  if (arguments.size() == 3 && llvm::StringRef(arguments[1]) == "--write-pages") {
    llvm::Error error = writePages(info, arguments[2]);
    return error ? report(std::move(error)) : ExitCode::Success;
  }
  if (llvm::Error error = checkCommandLine(arguments, info))
    return report(std::move(error));
  if (llvm::Error error = readCommandLine(arguments))
    return report(std::move(error));
  llvm::Expected<ExitCode> code = body();
  return code ? *code : report(code.takeError());
}

/// Results that nobody could read are a failure, but a closed pipe (`| head`) is nobody's fault: no
/// message.
int finish(ExitCode code) {
  waitIfStopping();
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (!out.has_error())
    return static_cast<int>(code);
  std::error_code error = out.error();
  out.clear_error();
  if (error == std::errc::broken_pipe)
    return 128 + SIGPIPE;
  printError({ExitCode::IO, "cannot write to stdout: " + error.message(), ""});
  return code == ExitCode::Success ? static_cast<int>(ExitCode::IO) : static_cast<int>(code);
}

} // namespace

int toolMain(int argc, char **argv, const ToolInfo &info,
             llvm::function_ref<llvm::Expected<ExitCode>()> body) {
  handleSignals();
  std::vector<const char *> arguments(argv, argv + argc);
  return finish(runTool(arguments, info, body));
}

void printVerdict(bool passed, llvm::StringRef why, bool jsonOnStdout) {
  llvm::outs().flush();
  llvm::raw_ostream &out = jsonOnStdout ? llvm::errs() : llvm::outs();
  if (passed)
    out << "PASSED\n";
  else
    out << "FAILED: " << why << "\n";
}

void printNote(llvm::StringRef note) { llvm::errs() << "note: " << note << "\n"; }
void printWarning(llvm::StringRef warning) { llvm::errs() << "warning: " << warning << "\n"; }

llvm::Expected<size_t> chooseByName(llvm::StringRef option, llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == value)
      return i;
  return failf(ExitCode::Usage, "{}: expected one of {}, got \"{}\"", spelledOption(option),
               llvm::join(names, ", "), value.str());
}

} // namespace pipec

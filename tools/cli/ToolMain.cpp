#include "tools/cli/ToolMain.h"

#include "ir/support/Reproducer.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Version.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/Crashes.h"
#include "tools/cli/Help.h"
#include "tools/cli/Pages.h"
#include "tools/cli/Signals.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <new>
#include <unistd.h>

namespace pipec {
namespace {

llvm::Error guardPlain(const std::string &doing, llvm::function_ref<llvm::Error()> body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return makeError(ExitCode::OutOfMemory, doing + ": out of memory");
  } catch (const std::exception &exception) {
    return makeError(ExitCode::Internal, doing + ": " + exception.what());
  }
}

void printError(const ErrorText &text) {
  flushStdout();
  toStderr() << "error: " << text.message << "\n";
  if (!text.help.empty())
    toStderr() << "help: " << text.help << "\n";
}

llvm::Expected<std::string> leaveReproducer(const ErrorText &error,
                                            llvm::ArrayRef<const char *> arguments,
                                            const ToolInfo &info) {
  Reproducer made = TRY(Reproducer::begin("."));
  ReproducerParts parts = info.reproducer ? info.reproducer() : ReproducerParts();
  std::vector<std::string> command(arguments.begin(), arguments.end());
  parts.files.emplace_back("README.txt", reproducerReadme(error, command, parts.about));
  for (const auto &[name, text] : parts.files)
    TRY(made.write(name, text));
  if (info.trace) // fails as the command did
    runInChild([&] { llvm::consumeError(info.trace(made.directory())); });
  return made.publish();
}

ExitCode report(llvm::Error error, llvm::ArrayRef<const char *> arguments, const ToolInfo &info,
                ExceptionGuard *guard) {
  waitIfStopping();
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Internal && !mentionsReproducer(text)) {
    ErrorText plain = text;
    llvm::Error failed = guard("writing it", [&]() -> llvm::Error {
      llvm::Expected<std::string> made = leaveReproducer(plain, arguments, info);
      text = withReproducer(plain, std::move(made));
      return llvm::Error::success();
    });
    if (failed)
      text = withReproducer(plain, std::move(failed));
    waitIfStopping();
  }
  printError(text);
  return text.code;
}

/// An exception is a fault of pipec, unless memory ran out.
llvm::Expected<ExitCode> runBody(const ToolInfo &info, ExceptionGuard *guard,
                                 llvm::function_ref<llvm::Expected<ExitCode>()> body) {
  ExitCode code = ExitCode::Success;
  llvm::Error error = guard(info.name, [&]() -> llvm::Error {
    code = TRY(body());
    if (testEnd)
      testEnd();
    return llvm::Error::success();
  });
  TRY(std::move(error));
  return code;
}

ExitCode runTool(llvm::ArrayRef<const char *> arguments, const ToolInfo &info,
                 ExceptionGuard *guard, llvm::function_ref<llvm::Expected<ExitCode>()> body) {
  if (asksFor(arguments, "--help") || asksFor(arguments, "-h")) {
    toStdout() << helpText(info);
    return ExitCode::Success;
  }
  if (asksFor(arguments, "--version")) {
    toStdout() << info.name << " " << pipecVersion() << " (LibTorch " << torchVersion() << ", LLVM "
               << LLVM_VERSION_STRING << ")\n";
    return ExitCode::Success;
  }
  if (arguments.size() == 3 && llvm::StringRef(arguments[1]) == "--write-pages") {
    llvm::Error error = writePages(info, arguments[2]);
    return error ? report(std::move(error), arguments, info, guard) : ExitCode::Success;
  }
  if (llvm::Error error = checkCommandLine(arguments, info))
    return report(std::move(error), arguments, info, guard);
  if (llvm::Error error = readCommandLine(arguments))
    return report(std::move(error), arguments, info, guard);
  if (const Crash &crash = crashBefore(); crash.isOfFile())
    return report(makeError(ExitCode::IO,
                            info.name +
                                ": a file became shorter while it was read, or its disk "
                                "failed: " +
                                crash.text,
                            "run it on a file that no other process changes"),
                  arguments, info, guard);
  else if (crash.signal != 0)
    return report(failf(ExitCode::Internal, "{}: crashed: {}", info.name, crash.text), arguments,
                  info, guard);
  llvm::Expected<ExitCode> code = runBody(info, guard, body);
  return code ? *code : report(code.takeError(), arguments, info, guard);
}

/// Results that could not be written are a failure. A closed pipe (`| head`) is not, so it prints
/// no message.
ExitCode finish(ExitCode code) {
  flushStdout();
  llvm::raw_fd_ostream &out = llvm::outs();
  if (!out.has_error())
    return code;
  std::error_code error = out.error();
  out.clear_error();
  if (error == std::errc::broken_pipe)
    return static_cast<ExitCode>(128 + SIGPIPE);
  printError({ExitCode::IO, "cannot write to stdout: " + error.message(), ""});
  return code == ExitCode::Success ? ExitCode::IO : code;
}

/// Otherwise a file opened later would get the number of a stream that was closed at the start, and
/// our output. Writes still fail.
void holdClosedStreams() {
  for (int stream = 0; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) == -1)
      ::open("/dev/null", O_RDONLY); // takes the lowest free number, which is this one
}

} // namespace

int plainToolMain(int argc, char **argv, const ToolInfo &info,
                  llvm::function_ref<llvm::Expected<ExitCode>()> body, ExceptionGuard *guard) {
  holdClosedStreams();
  handleCrashes(argv);
  handleSignals();
  std::vector<const char *> arguments(argv, argv + argc);
  escapeLineEndsOf(arguments);
  ExitCode code = runTool(arguments, info, guard ? guard : guardPlain, body);
  waitIfStopping();
  code = finish(code);
  llvm::errs().clear_error(); // stderr is closed; LLVM would abort the process
  return static_cast<int>(code);
}

void printVerdict(bool passed, llvm::StringRef why, bool jsonOnStdout) {
  flushStdout();
  llvm::raw_ostream &out = jsonOnStdout ? toStderr() : toStdout();
  if (passed)
    out << "PASSED\n";
  else
    out << "FAILED: " << why << "\n";
}

void printNote(llvm::StringRef note) { toStderr() << "note: " << note << "\n"; }
void printWarning(llvm::StringRef warning) { toStderr() << "warning: " << warning << "\n"; }

} // namespace pipec

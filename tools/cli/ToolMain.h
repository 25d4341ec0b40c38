// The common front of all commands: options, help, errors, exit codes, signals. docs/cli.md is
// generated from its output.
//
// A tool declares its options as cl::opt at namespace scope (cl::opt registers globally: only tools
// may), then:
//
//   int main(int argc, char **argv) {
//     return plainToolMain(argc, argv, {"pipe-schedule", "checks a schedule", "NAME [options]",
//     examples}, run);
//   }
//
// A command that uses LibTorch calls toolMain of tools/cli/TorchMain.h instead.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/cli/OptionValues.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The parts that a command adds to a reproducer: texts of files by name, and how to use them.
struct ReproducerParts {
  std::vector<std::pair<std::string, std::string>> files;
  std::string about; // ends with a line end
};

struct ToolInfo {
  std::string name;                  // "pipe-check"
  std::string description;           // one sentence, lower case, no full stop
  std::string usage;                 // after the name: "MODEL.pipe [options]"
  std::vector<std::string> examples; // whole command lines, shown at the end of --help
  std::function<ReproducerParts()> reproducer = {}; // called after an internal error
  /// Parts that need the work done once more; it writes into the reproducer's directory. Also
  /// called after an internal error. After a crash neither function has the command's state, and
  /// this one may crash again.
  std::function<llvm::Error(const std::string &directory)> trace = {};
  /// For completion: the words that a name in a value_desc stands for, as "PASS" for every pass.
  std::map<std::string, std::vector<std::string>> words = {};
  /// Names that are no options, and what to pass instead.
  std::map<std::string, std::string> insteadOf = {};
};

/// Turns an exception out of `body` into an internal error "<doing>: ...".
using ExceptionGuard = llvm::Error(const std::string &doing,
                                   llvm::function_ref<llvm::Error()> body);

/// Parses the command line, runs `body`, prints its error ("error: ...", "help: ...") to stderr and
/// returns the exit code: the error's, or the result of `body`. --help and --version are built in,
/// and --write-pages DIR for the installation (tools/cli/Pages.h). A bad command line exits 2 with
/// one message: the nearest name of an unknown option, a missing or repeated value, too many or too
/// few arguments. An exception out of `body` is an internal error, with the text that `guard` gives
/// it, or else its own. An internal error that has no
/// reproducer yet gets one in the working directory; so does a crash (tools/cli/Crashes.h). SIGINT,
/// SIGTERM and SIGHUP remove half-written output and exit 128+n from a separate thread; SIGQUIT
/// then ends the process itself. SIGPIPE is ignored (a closed stdout ends in a quiet 141). Call it
/// before any thread is made.
int plainToolMain(int argc, char **argv, const ToolInfo &info,
                  llvm::function_ref<llvm::Expected<ExitCode>()> body,
                  ExceptionGuard *guard = nullptr);

using EndOfCommand = void (*)();
/// Called at the end of a command that succeeded. A test build sets it before main(); the product
/// leaves it empty.
inline constinit EndOfCommand testEnd = nullptr;

/// The last line of a run that checks something: "PASSED" or "FAILED: <why>". To stdout; to stderr
/// when stdout holds a JSON document.
void printVerdict(bool passed, llvm::StringRef why, bool jsonOnStdout);

/// A note for people: "note: ..." on stderr.
void printNote(llvm::StringRef note);
void printWarning(llvm::StringRef warning);

/// Whether `option` was given on the command line.
inline bool given(const llvm::cl::Option &option) { return option.getNumOccurrences() > 0; }
/// The value of an option that was given.
inline std::optional<std::string> asGiven(const StringOption &option) {
  return given(option) ? std::optional(option.getValue()) : std::nullopt;
}
template <typename Number, int Kind>
std::optional<Number> asGiven(const llvm::cl::opt<OptionNumber<Number, Kind>> &option) {
  return given(option) ? std::optional(option.getValue().value) : std::nullopt;
}

} // namespace pipec

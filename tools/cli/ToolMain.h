// The common front of all commands: options, help, errors, exit codes, signals. docs/cli.md is
// generated from its output.
//
// A tool declares its options as cl::opt at namespace scope (cl::opt registers globally: only tools
// may), then:
//
//   int main(int argc, char **argv) {
//     return toolMain(argc, argv, {"pipe-check", "checks an artifact", "MODEL.pipe [options]",
//     examples}, run);
//   }
#pragma once

#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"

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
};

/// Parses the command line, runs `body`, prints its error ("error: ...", "help: ...") to stderr and
/// returns the exit code: the error's, or the result of `body`. --help and --version are built in,
/// and --write-pages DIR for the installation (tools/cli/Pages.h). A bad command line exits 2 with
/// one message: the nearest name of an unknown option, a missing or repeated value, too many or too
/// few arguments. An exception out of `body` is an internal error. An internal error that has no
/// reproducer yet gets one in the working directory; so does a crash (tools/cli/Crashes.h). SIGINT,
/// SIGTERM and SIGHUP remove half-written output and exit 128+n from a separate thread; SIGQUIT
/// then ends the process itself. SIGPIPE is ignored (a closed stdout ends in a quiet 141). Call it
/// before any thread is made.
int toolMain(int argc, char **argv, const ToolInfo &info,
             llvm::function_ref<llvm::Expected<ExitCode>()> body);

/// Turns an exception out of `body` into an internal error "<doing>: ...".
using ExceptionGuard = llvm::Error(const std::string &doing,
                                   llvm::function_ref<llvm::Error()> body);
/// toolMain for a command without LibTorch: exceptions are described by their text only.
int plainToolMain(int argc, char **argv, const ToolInfo &info,
                  llvm::function_ref<llvm::Expected<ExitCode>()> body,
                  ExceptionGuard *guard = nullptr);

using EndOfCommand = void (*)();
/// Called at the end of a command that succeeded. A test build sets it before main(); the product
/// leaves it empty.
inline constinit EndOfCommand testEnd = nullptr;

/// The last line of a run that checks something: "PASSED" or "FAILED: <why>". To stdout; to stderr
/// when stdout holds a JSON document.
void printVerdict(bool passed, llvm::StringRef why = "", bool jsonOnStdout = false);

/// A note for people: "note: ..." on stderr.
void printNote(llvm::StringRef note);
void printWarning(llvm::StringRef warning);

/// Whether `option` was given on the command line.
inline bool given(const llvm::cl::Option &option) { return option.getNumOccurrences() > 0; }

/// 64, 64B, 10kB, 64KiB, 1.5GiB. Errors: Usage.
llvm::Expected<int64_t> parseSize(llvm::StringRef text);
/// Nanoseconds of 90s, 1.5ms, 10us, 3ns, 5min, 2h. A plain number is seconds. Errors: Usage.
llvm::Expected<int64_t> parseDuration(llvm::StringRef text);

/// Values of options whose texts are checked with our own messages. Each converts to its number.
///   IntegerOption stages("stages", cl::value_desc("N"), cl::desc("number of stages"));  ...
///   int64_t n = stages;
template <typename Number, int Kind> struct OptionNumber {
  Number value = 0;
  OptionNumber(Number number = 0) : value(number) {}
  operator Number() const { return value; }
};
using IntegerValue = OptionNumber<int64_t, 0>;
using SizeValue = OptionNumber<int64_t, 1>;     // bytes
using DurationValue = OptionNumber<int64_t, 2>; // nanoseconds
using NumberValue = OptionNumber<double, 3>;
using IntegerOption = llvm::cl::opt<IntegerValue>;
using SizeOption = llvm::cl::opt<SizeValue>;
using DurationOption = llvm::cl::opt<DurationValue>;
using NumberOption = llvm::cl::opt<NumberValue>;
using StringOption = llvm::cl::opt<std::string>;
using StringListOption = llvm::cl::list<std::string>;
using FlagOption = llvm::cl::opt<bool>;

/// The index in `names` of the value of an option that chooses by name. Errors: Usage listing the
/// names.
llvm::Expected<size_t> chooseByName(llvm::StringRef option, llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> names);

/// The same for a type: the value beside the name.
template <typename Value>
llvm::Expected<Value>
chooseByName(llvm::StringRef option, llvm::StringRef value,
             std::initializer_list<std::pair<llvm::StringRef, Value>> choices) {
  std::vector<llvm::StringRef> names;
  for (const auto &choice : choices)
    names.push_back(choice.first);
  size_t index = TRY(chooseByName(option, value, names));
  return choices.begin()[index].second;
}

/// Reads one value; an error is kept for toolMain to print.
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, IntegerValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, SizeValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, DurationValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, NumberValue &value);

} // namespace pipec

namespace llvm::cl {

template <typename Number, int Kind>
class parser<pipec::OptionNumber<Number, Kind>>
    : public basic_parser<pipec::OptionNumber<Number, Kind>> {
public:
  using Value = pipec::OptionNumber<Number, Kind>;
  parser(Option &option) : basic_parser<Value>(option) {}
  bool parse(Option &, StringRef name, StringRef text, Value &value) {
    return pipec::parseOptionValue(name, text, value);
  }
  void printOptionDiff(const Option &option, const Value &, const OptionValue<Value> &,
                       size_t width) const {
    this->printOptionNoValue(option, width);
  }
};

} // namespace llvm::cl

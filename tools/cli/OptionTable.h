// What a command takes, as data: --help, the manual page and the completion of three shells are
// written from it.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// One option, or one argument that is no option.
struct OptionRow {
  std::string name;  // without dashes; of an argument what it is called: "MODEL.pt"
  std::string value; // what follows: "N", "auto|markers|at"; empty: nothing
  bool valueOptional = false;
  bool repeats = false; // may be given several times
  std::string text;

  /// "--split auto|markers|at".
  std::string spelled() const;
};
struct OptionGroup {
  std::string heading; // empty: the tool's own, which comes first
  std::vector<OptionRow> rows;
};
struct OptionTable {
  std::vector<OptionRow> arguments;
  std::vector<OptionGroup> groups;
};

/// Options are sorted by name within their group, --help and --version end the first, so that the
/// table depends on nothing but the declarations.
OptionTable optionTable(const ToolInfo &info);

/// What a shell can offer for a value, read from how it is described: alternatives between bars, of
/// which the ones in lower case are words, FILE, FILE.csv and DIR are files, and the rest is for
/// people. "transmit|replicate|NAME=...,...": a list of the two words; what follows an alternative
/// with "=" belongs to that.
struct ValueChoices {
  std::vector<std::string> words;
  std::vector<std::string> endings; // of files: "pt", "csv"; "*" is any
  bool directories = false;
  bool list = false; // several with commas between them

  bool any() const { return !words.empty() || !endings.empty() || directories; }
};
ValueChoices valueChoices(llvm::StringRef value, const ToolInfo &info);

} // namespace pipec

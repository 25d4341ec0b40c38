// The options of a command as data: --help, the manual page and the completion of three shells are
// generated from it.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// One option, or one argument that is not an option.
struct OptionRow {
  std::string name;  // without dashes; of an argument its name: "MODEL.pt"
  std::string value; // the option's value: "N", "auto|markers|at"; empty: none
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

/// Options are sorted by name within their group, and --help and --version end the first group, so
/// the table depends only on the declarations.
OptionTable optionTable(const ToolInfo &info);

/// The completions that a shell can offer for a value, derived from its description: alternatives
/// between bars. Lower-case alternatives are words; FILE, FILE.csv and DIR are files; the rest is
/// for people. "transmit|replicate|NAME=...,..." is a list of the two words. The text after an
/// alternative with "=" belongs to that alternative.
struct ValueChoices {
  std::vector<std::string> words;
  std::vector<std::string> endings; // of files: "pt", "csv"; "*": any
  bool directories = false;
  bool list = false; // true: several, separated by commas

  bool any() const { return !words.empty() || !endings.empty() || directories; }
};
ValueChoices valueChoices(llvm::StringRef value, const ToolInfo &info);

} // namespace pipec

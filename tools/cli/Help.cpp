#include "tools/cli/Help.h"

#include "tools/cli/OptionTable.h"

namespace pipec {
namespace {

constexpr size_t kIndent = 2, kTextColumn = 28, kWidth = 100;

/// "  --stages N                number of stages", wrapped at kWidth under its own text.
std::string row(const std::string &left, llvm::StringRef text) {
  std::string out(kIndent, ' ');
  out += left;
  if (out.size() + 2 > kTextColumn)
    out += "\n" + std::string(kTextColumn, ' ');
  else
    out.resize(kTextColumn, ' ');
  size_t column = kTextColumn;
  bool first = true;
  while (!text.empty()) {
    auto [word, rest] = text.split(' ');
    text = rest;
    if (!first && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(kTextColumn, ' ');
      column = kTextColumn;
      first = true;
    }
    out += (first ? "" : " ") + word.str();
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  return llvm::StringRef(out).rtrim().str() + "\n";
}

} // namespace

std::string helpText(const ToolInfo &info) {
  std::string text =
      info.name + ": " + info.description + "\n\nusage: " + info.name + " " + info.usage + "\n";
  OptionTable table = optionTable(info);
  std::string arguments;
  for (const OptionRow &argument : table.arguments)
    if (!argument.text.empty())
      arguments += row(argument.name, argument.text);
  if (!arguments.empty())
    text += "\narguments:\n" + arguments;
  for (const OptionGroup &group : table.groups) {
    text += "\n" + (group.heading.empty() ? "options" : group.heading) + ":\n";
    for (const OptionRow &option : group.rows)
      text += row(option.spelled(), option.text);
  }
  if (!info.examples.empty())
    text += "\nexamples:\n";
  for (const std::string &example : info.examples)
    text += "  " + example + "\n";
  return text;
}

} // namespace pipec

// --help: usage, arguments, options by category, examples.
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "tools/CommandLine.h"

#include <map>

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

std::string leftColumn(llvm::StringRef name, const llvm::cl::Option &option) {
  std::string left = (name.size() == 1 ? "-" : "--") + name.str();
  std::string value = option.ValueStr.empty() ? "VALUE" : option.ValueStr.str();
  switch (option.getValueExpectedFlag()) {
  case llvm::cl::ValueRequired:
    return left + " " + value;
  case llvm::cl::ValueOptional:
    return option.ValueStr.empty() ? left : left + "[=" + value + "]";
  case llvm::cl::ValueDisallowed:
    break;
  }
  return left;
}

} // namespace

std::string helpText(const ToolInfo &info) {
  std::string text =
      info.name + ": " + info.description + "\n\nusage: " + info.name + " " + info.usage + "\n";
  // An argument with a name but without a text says no more than the usage line.
  std::string arguments;
  for (const llvm::cl::Option *option : positionalOptions())
    if (!option->ValueStr.empty())
      arguments += row(option->ValueStr.str(), option->HelpStr);
  if (!arguments.empty())
    text += "\narguments:\n" + arguments;

  // Category name to option name to row. The general category and the one named after the tool come
  // first, as "options".
  std::map<std::string, std::map<std::string, std::string>> categories;
  for (const auto &entry : llvm::cl::getRegisteredOptions()) {
    const llvm::cl::Option &option = *entry.second;
    if (!isOwnOption(option) || option.getOptionHiddenFlag() != llvm::cl::NotHidden)
      continue;
    const llvm::cl::OptionCategory *category = option.Categories.front();
    bool plain = category == &llvm::cl::getGeneralCategory() || category->getName() == info.name;
    std::string heading = plain ? "" : category->getName().str();
    categories[heading][entry.first().str()] =
        row(leftColumn(entry.first(), option), option.HelpStr);
  }
  categories[""];
  for (const auto &[heading, rows] : categories) {
    text += "\n" + (heading.empty() ? "options" : heading) + ":\n";
    for (const auto &[name, line] : rows)
      text += line;
    if (heading.empty())
      text += row("--help", "print this text") +
              row("--version", "print the versions of pipec and its libraries");
  }
  if (!info.examples.empty())
    text += "\nexamples:\n";
  for (const std::string &example : info.examples)
    text += "  " + example + "\n";
  return text;
}

} // namespace pipec

#include "tools/cli/OptionTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "tools/cli/CommandLine.h"

#include <map>

namespace pipec {
namespace {

OptionRow rowOf(llvm::StringRef name, const llvm::cl::Option &option) {
  OptionRow row;
  row.name = name.str();
  row.text = option.HelpStr.str();
  row.repeats = option.getNumOccurrencesFlag() == llvm::cl::ZeroOrMore ||
                option.getNumOccurrencesFlag() == llvm::cl::OneOrMore;
  switch (option.getValueExpectedFlag()) {
  case llvm::cl::ValueRequired:
    row.value = option.ValueStr.empty() ? "VALUE" : option.ValueStr.str();
    break;
  case llvm::cl::ValueOptional:
    row.value = option.ValueStr.str();
    row.valueOptional = true;
    break;
  case llvm::cl::ValueDisallowed:
    break;
  }
  return row;
}

/// "none", "forward-only", but not "N" or "cuda:N".
bool isWord(llvm::StringRef text) {
  auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && lower(text[0]) &&
         llvm::all_of(text, [&](char c) { return lower(c) || llvm::isDigit(c) || c == '-'; });
}

} // namespace

std::string OptionRow::spelled() const {
  std::string option = spelledOption(name);
  if (value.empty())
    return option;
  return valueOptional ? option + "[=" + value + "]" : option + " " + value;
}

OptionTable optionTable(const ToolInfo &info) {
  OptionTable table;
  for (const llvm::cl::Option *option : positionalOptions()) {
    // An argument with a name but without a text says no more than the usage line.
    OptionRow row{positionalName(*option), "", false, false, ""};
    if (!option->ValueStr.empty())
      row.text = option->HelpStr.str();
    table.arguments.push_back(std::move(row));
  }
  // The general category and the one named after the tool are one and come first.
  std::map<std::string, std::map<std::string, OptionRow>> groups;
  groups[""];
  for (const auto &entry : llvm::cl::getRegisteredOptions()) {
    const llvm::cl::Option &option = *entry.second;
    if (!isOwnOption(option) || option.getOptionHiddenFlag() != llvm::cl::NotHidden)
      continue;
    const llvm::cl::OptionCategory *category = option.Categories.front();
    bool plain = category == &llvm::cl::getGeneralCategory() || category->getName() == info.name;
    groups[plain ? "" : category->getName().str()].emplace(option.ArgStr.str(),
                                                           rowOf(option.ArgStr, option));
  }
  for (auto &[heading, rows] : groups) {
    OptionGroup group{heading, {}};
    for (auto &[name, row] : rows)
      group.rows.push_back(std::move(row));
    if (heading.empty()) {
      group.rows.push_back({"help", "", false, false, "print this text"});
      group.rows.push_back(
          {"version", "", false, false, "print the versions of pipec and its libraries"});
    }
    table.groups.push_back(std::move(group));
  }
  return table;
}

ValueChoices valueChoices(llvm::StringRef value, const ToolInfo &info) {
  ValueChoices choices;
  auto [alternatives, more] = value.split(',');
  choices.list = !more.empty();
  llvm::SmallVector<llvm::StringRef, 4> parts;
  alternatives.split(parts, '|');
  for (llvm::StringRef part : parts) {
    part = part.trim();
    if (part.contains('='))
      break;
    auto words = info.words.find(part.str());
    llvm::StringRef ending = part.rsplit('.').second;
    if (words != info.words.end())
      choices.words.insert(choices.words.end(), words->second.begin(), words->second.end());
    else if (isWord(part))
      choices.words.push_back(part.str());
    else if (part == "DIR" || ending == "pipe")
      choices.directories = true;
    else if (part == "FILE")
      choices.endings.push_back("*");
    else if (isWord(ending))
      choices.endings.push_back(ending.str());
  }
  return choices;
}

} // namespace pipec

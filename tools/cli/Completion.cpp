#include "tools/cli/Completion.h"

#include "llvm/ADT/StringExtras.h"
#include "tools/cli/CommandLine.h"

namespace pipec {
namespace {

/// Quotes a text as one word of a shell.
std::string quoted(llvm::StringRef text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string header(const ToolInfo &info, llvm::StringRef shell) {
  return "# Completion of " + info.name + " for " + shell.str() +
         ". Written by pipec's installation.\n";
}

/// Calls `visit` with each option of all groups.
void forEachOption(const ToolInfo &info, llvm::function_ref<void(const OptionRow &)> visit) {
  for (const OptionGroup &group : optionTable(info).groups)
    for (const OptionRow &option : group.rows)
      visit(option);
}

bool takesValue(const OptionRow &option) { return !option.value.empty() && !option.valueOptional; }

ValueChoices argumentChoices(const ToolInfo &info) {
  OptionTable table = optionTable(info);
  return table.arguments.empty() ? ValueChoices() : valueChoices(table.arguments[0].name, info);
}

std::string bashChoices(const ValueChoices &choices) {
  if (!choices.any())
    return " return";
  std::string text;
  if (!choices.words.empty())
    text += " words=" + quoted(llvm::join(choices.words, " "));
  if (!choices.endings.empty())
    text += " endings=" + quoted(llvm::join(choices.endings, " "));
  if (choices.directories || !choices.endings.empty())
    text += " directories=yes";
  if (choices.list)
    text += " list=yes";
  return text;
}

/// The action after the description in an _arguments specification.
std::string zshAction(const ValueChoices &choices) {
  std::string words = llvm::join(choices.words, " ");
  std::string files;
  if (choices.directories)
    files += "; _files -/";
  for (const std::string &ending : choices.endings)
    files += ending == "*" ? "; _files" : "; _files -g \"*." + ending + "\"";
  if (choices.list && !words.empty())
    return "_sequence compadd - " + words;
  if (!words.empty() && !files.empty())
    return "{ compadd - " + words + files + " }";
  if (!words.empty())
    return "(" + words + ")";
  return files.empty() ? " " : "{ " + files.substr(2) + " }";
}

std::string zshEscaped(llvm::StringRef text) {
  std::string out;
  for (char c : text)
    out += (llvm::StringRef("[]:\\").contains(c) ? "\\" : "") + std::string(1, c);
  return out;
}

constexpr const char *kBashBody = R"(
  # In a list only what follows the last comma is completed.
  local before=
  if [[ -n $list ]]; then
    compopt -o nospace 2>/dev/null
    [[ $current == *,* ]] && before=${current%,*}, current=${current##*,}
  fi
  local reply ending
  while IFS= read -r reply; do COMPREPLY+=("$before$reply"); done < <(
    [[ -n $words ]] && compgen -W "$words" -- "$current"
    if [[ $endings == '*' ]]; then
      compgen -f -- "$current"
    else
      for ending in $endings; do compgen -f -X "!*.$ending" -- "$current"; done
      [[ -n $directories ]] && compgen -d -- "$current"
    fi)
  [[ -n $directories ]] && compopt -o filenames 2>/dev/null
  return 0
}
)";

} // namespace

std::string bashCompletion(const ToolInfo &info) {
  std::string function = "_" + info.name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string names;
  std::string cases;
  forEachOption(info, [&](const OptionRow &option) {
    names += (names.empty() ? "" : " ") + spelledOption(option.name);
    if (takesValue(option))
      cases += "  " + spelledOption(option.name) + ")" +
               bashChoices(valueChoices(option.value, info)) + " ;;\n";
  });
  return header(info, "bash") + function + "() {\n" +
         R"(  local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}
  # bash cuts --option=value at the equals sign.
  if [[ $current == = ]]; then
    current=
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local words= endings= directories= list=
  COMPREPLY=()
  case $option in
)" + cases +
         "  *)\n    if [[ $current == -* ]]; then\n      words=" + quoted(names) +
         "\n    else\n     " + bashChoices(argumentChoices(info)) + "\n    fi ;;\n  esac" +
         kBashBody + "complete -F " + function + " " + info.name + "\n";
}

std::string zshCompletion(const ToolInfo &info) {
  std::string text = "#compdef " + info.name + "\n" + header(info, "zsh") + "_arguments -S";
  forEachOption(info, [&](const OptionRow &option) {
    std::string spec = option.repeats ? "*" : "";
    spec += spelledOption(option.name);
    if (takesValue(option) && option.name.size() > 1)
      spec += "=";
    spec += "[" + zshEscaped(option.text) + "]";
    if (takesValue(option))
      spec += ":" + zshEscaped(option.value) + ":" + zshAction(valueChoices(option.value, info));
    text += " \\\n  " + quoted(spec);
  });
  OptionTable table = optionTable(info);
  if (!table.arguments.empty())
    text += " \\\n  " + quoted("1:" + zshEscaped(table.arguments[0].name) + ":" +
                               zshAction(argumentChoices(info)));
  return text + "\n";
}

std::string fishCompletion(const ToolInfo &info) {
  std::string text = header(info, "fish");
  auto choicesOf = [](const ValueChoices &choices) {
    bool files = choices.directories || !choices.endings.empty();
    std::string words = llvm::join(choices.words, " ");
    if (choices.list && !words.empty())
      words = "(__fish_append , " + words + ")";
    return std::string(files ? " -r -F" : " -x") + (words.empty() ? "" : " -a " + quoted(words));
  };
  forEachOption(info, [&](const OptionRow &option) {
    text += "complete -c " + info.name + (option.name.size() == 1 ? " -s " : " -l ") + option.name;
    if (takesValue(option))
      text += choicesOf(valueChoices(option.value, info));
    text += " -d " + quoted(option.text) + "\n";
  });
  return text;
}

} // namespace pipec

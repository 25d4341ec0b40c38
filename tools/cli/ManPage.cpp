#include "tools/cli/ManPage.h"

#include "ir/support/Version.h"
#include "tools/cli/CommandLine.h"

namespace pipec {
namespace {

/// Text that roff prints unchanged. Otherwise "-" would become a typographic hyphen, and a full
/// stop or an apostrophe at the start of a line a request.
std::string roff(llvm::StringRef text) {
  std::string out;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else
      out += c;
  }
  return out;
}

std::string entry(const std::string &bold, const std::string &italic, const std::string &text) {
  std::string head = bold.empty() ? "" : "\\fB" + roff(bold) + "\\fR";
  if (!italic.empty())
    head += (head.empty() ? "" : " ") + ("\\fI" + roff(italic) + "\\fR");
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

} // namespace

std::string manPage(const ToolInfo &info) {
  std::string page = ".TH " + roff(llvm::StringRef(info.name).upper()) + " 1 \"\" \"pipec " +
                     pipecVersion() + "\" \"pipec\"\n";
  page += ".SH NAME\n" + roff(info.name) + " \\- " + roff(info.description) + "\n";
  page += ".SH SYNOPSIS\n\\fB" + roff(info.name) + "\\fR " + roff(info.usage) + "\n";
  OptionTable table = optionTable(info);
  std::string arguments;
  for (const OptionRow &argument : table.arguments)
    if (!argument.text.empty())
      arguments += entry("", argument.name, argument.text);
  if (!arguments.empty())
    page += ".SH ARGUMENTS\n" + arguments;
  page += ".SH OPTIONS\n";
  for (const OptionGroup &group : table.groups) {
    if (!group.heading.empty())
      page += ".SS " + roff(group.heading) + "\n";
    for (const OptionRow &option : group.rows)
      page += option.valueOptional ? entry(option.spelled(), "", option.text)
                                   : entry(spelledOption(option.name), option.value, option.text);
  }
  if (!info.examples.empty()) {
    page += ".SH EXAMPLES\n.nf\n";
    for (const std::string &example : info.examples)
      page += roff(example) + "\n";
    page += ".fi\n";
  }
  page += ".SH EXIT STATUS\n"
          "0 on success. An error is printed to standard error as \"error: ...\", with one likely "
          "fix as \"help: ...\";\nwhat the other codes mean is in docs/cli.md of the "
          "documentation.\n";
  return page;
}

} // namespace pipec

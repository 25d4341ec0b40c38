#include "tools/cli/CommandLine.h"

#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/LlvmCommandLine.h"

namespace pipec {
namespace {

llvm::cl::Option *findOwn(llvm::StringRef name) {
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find(name);
  return found != options.end() && isOwnOption(*found->second) ? found->second : nullptr;
}

/// The option that the user may have meant: one that begins with the text, else a similar one.
std::string optionHelp(llvm::StringRef name, const ToolInfo &info) {
  if (auto instead = info.insteadOf.find(name.str()); instead != info.insteadOf.end())
    return "pass " + instead->second;
  std::vector<std::string> names = {"help", "version"};
  for (const auto &entry : llvm::cl::getRegisteredOptions())
    if (isOwnOption(*entry.second) && entry.second->ArgStr.size() > 1)
      names.push_back(entry.second->ArgStr.str());
  llvm::sort(names);
  auto begins = llvm::find_if(names, [&](llvm::StringRef candidate) {
    return name.size() >= 2 && startsWith(candidate, name);
  });
  std::string nearest = begins != names.end() ? *begins : nearestName(name, names);
  return nearest.empty() ? "see " + info.name + " --help" : "did you mean --" + nearest + "?";
}

llvm::Error unknownOption(llvm::StringRef shown, llvm::StringRef name, const ToolInfo &info) {
  return makeError(ExitCode::Usage, "unknown option " + shown.str(), optionHelp(name, info));
}

bool takesOneValue(const llvm::cl::Option &option) {
  return option.getNumOccurrencesFlag() == llvm::cl::Optional ||
         option.getNumOccurrencesFlag() == llvm::cl::Required;
}

/// The value of an option that takes a list.
llvm::Error checkList(const llvm::cl::Option &option, llvm::StringRef value) {
  if (!(option.getMiscFlags() & llvm::cl::CommaSeparated))
    return llvm::Error::success();
  llvm::SmallVector<llvm::StringRef, 8> entries;
  value.split(entries, ',');
  return expectNoneEmpty(spelledOption(option.ArgStr), value, entries);
}

/// Checks the arguments from left to right, as llvm::cl does.
class ArgumentCheck {
public:
  ArgumentCheck(llvm::ArrayRef<const char *> arguments, const ToolInfo &info)
      : arguments_(arguments), info_(info) {}

  llvm::Error run() {
    for (; at_ < arguments_.size(); ++at_) {
      llvm::StringRef argument = arguments_[at_];
      if (onlyPositional_ || argument.size() < 2 || argument[0] != '-') {
        positional_.push_back(argument.str());
        continue;
      }
      if (argument == "--") {
        onlyPositional_ = true;
        continue;
      }
      TRY(option(argument));
    }
    return counts();
  }

private:
  llvm::Error option(llvm::StringRef argument) {
    auto [dashed, value] = argument.split('=');
    bool hasValue = argument.contains('=');
    llvm::StringRef name = dashed.ltrim('-');
    size_t dashes = dashed.size() - name.size();
    llvm::cl::Option *found = findOwn(name);
    if (!found || dashes != (name.size() == 1 ? 1u : 2u))
      return unknownOption(dashed, name, info_);
    if (takesOneValue(*found) && !seen_.insert({name, true}).second)
      return failf(ExitCode::Usage, "{}: expected one value, got two", spelledOption(name));
    if (hasValue && value.empty() && found->getValueExpectedFlag() == llvm::cl::ValueRequired)
      return failf(ExitCode::Usage, "{}: expected a value, got none", spelledOption(name));
    if (auto *flag = dynamic_cast<llvm::cl::opt<bool> *>(found); flag && hasValue) {
      bool known = value == "true" || value == "false" || value == "1" || value == "0";
      if (!known)
        return failf(ExitCode::Usage, "{}: expected true or false, got \"{}\"", spelledOption(name),
                     value.str());
    }
    if (hasValue)
      return checkList(*found, value);
    if (found->getValueExpectedFlag() != llvm::cl::ValueRequired)
      return llvm::Error::success();
    TRY(separateValue(name));
    return checkList(*found, arguments_[at_]);
  }

  /// The value of "--name" is the next argument, unless that is an option itself.
  llvm::Error separateValue(llvm::StringRef name) {
    ++at_;
    llvm::StringRef next = at_ < arguments_.size() ? arguments_[at_] : "";
    bool isOption = startsWith(next, "--") && findOwn(next.drop_front(2).split('=').first);
    if (!next.empty() && !isOption)
      return llvm::Error::success();
    return failf(ExitCode::Usage, "{}: expected a value, got {}", spelledOption(name),
                 isOption ? next.str() : "none");
  }

  llvm::Error counts() {
    llvm::ArrayRef<llvm::cl::Option *> declared = positionalOptions();
    size_t least = 0;
    bool any = false;
    for (const llvm::cl::Option *option : declared) {
      llvm::cl::NumOccurrencesFlag flag = option->getNumOccurrencesFlag();
      least += flag == llvm::cl::Required || flag == llvm::cl::OneOrMore;
      any |= flag == llvm::cl::ZeroOrMore || flag == llvm::cl::OneOrMore;
    }
    if (positional_.size() < least)
      return makeError(ExitCode::Usage,
                       "missing argument " + positionalName(*declared[positional_.size()]),
                       "usage: " + info_.name + " " + info_.usage);
    for (size_t i = 0; i < std::min(positional_.size(), declared.size()); ++i)
      if (positional_[i].empty())
        return makeError(ExitCode::Usage,
                         positionalName(*declared[i]) + ": expected a name, got an empty one");
    if (!any && positional_.size() > declared.size())
      return makeError(ExitCode::Usage,
                       fmt::format("unexpected argument \"{}\"", positional_[declared.size()]),
                       "usage: " + info_.name + " " + info_.usage);
    return llvm::Error::success();
  }

  llvm::ArrayRef<const char *> arguments_;
  const ToolInfo &info_;
  size_t at_ = 1;
  bool onlyPositional_ = false;
  std::vector<std::string> positional_;
  llvm::StringMap<bool> seen_;
};

} // namespace

std::string spelledOption(llvm::StringRef name) {
  return (name.size() == 1 ? "-" : "--") + name.str();
}

bool isOwnOption(const llvm::cl::Option &option) {
  for (const llvm::cl::OptionCategory *category : option.Categories) {
    if (category->getName() == "Generic Options" || category->getName() == "Color Options")
      return false;
    // LLVM's other options are hidden and in the general category. A hidden option of pipec has
    // another category.
    if (option.getOptionHiddenFlag() != llvm::cl::NotHidden &&
        category == &llvm::cl::getGeneralCategory())
      return false;
  }
  return true;
}

llvm::ArrayRef<llvm::cl::Option *> positionalOptions() { return topLevelPositionals(); }

std::string positionalName(const llvm::cl::Option &option) {
  return (option.ValueStr.empty() ? option.HelpStr : option.ValueStr).str();
}

llvm::Error checkCommandLine(llvm::ArrayRef<const char *> arguments, const ToolInfo &info) {
  return ArgumentCheck(arguments, info).run();
}

llvm::Error readCommandLine(llvm::ArrayRef<const char *> arguments) {
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const bool ok = parseWithDoubleDash(arguments, stream);
  std::string why = takeValueError();
  if (ok && why.empty())
    return llvm::Error::success();
  if (why.empty())
    why = llvm::StringRef(stream.str()).trim().str();
  return makeError(ExitCode::Usage, why.empty() ? "bad command line" : why);
}

bool asksFor(llvm::ArrayRef<const char *> arguments, llvm::StringRef option) {
  for (llvm::StringRef argument : arguments.drop_front()) {
    if (argument == "--")
      return false;
    if (argument == option)
      return true;
  }
  return false;
}

llvm::Error expectNoneEmpty(const std::string &option, llvm::StringRef text,
                            llvm::ArrayRef<llvm::StringRef> entries) {
  std::vector<llvm::StringRef> others;
  llvm::copy_if(entries, std::back_inserter(others),
                [](llvm::StringRef it) { return !it.empty(); });
  if (others.size() == entries.size())
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected something on both sides of each comma, got \"{}\"",
                               option, text.str()),
                   others.empty() ? "" : "pass " + llvm::join(others, ","));
}

llvm::Error within(const IntegerOption &option, int64_t least, int64_t most) {
  const int64_t number = option.getValue();
  if (!given(option) || (number >= least && number <= most))
    return llvm::Error::success();
  return failf(ExitCode::Usage, "{}: expected at {} {}, got {}", spelledOption(option.ArgStr),
               number < least ? "least" : "most", number < least ? least : most, number);
}

} // namespace pipec

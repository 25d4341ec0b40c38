// Checks the command line with our own messages before llvm::cl reads it, and prints --help in a
// form that golden files can hold.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// True for options that the tool declared; llvm::cl registers its own beside them.
bool isOwnOption(const llvm::cl::Option &option);

/// The limit for a plan; with more, schedules fill the memory.
constexpr int64_t kMostMicroBatches = int64_t(1) << 20;

/// An option as users type it: "--stages", "-o".
std::string spelledOption(llvm::StringRef name);

/// The declared arguments that are not options, in order.
llvm::ArrayRef<llvm::cl::Option *> positionalOptions();
/// The name of such an argument in messages: its value_desc, else its desc.
std::string positionalName(const llvm::cl::Option &option);

/// Errors: Usage. Unknown option (nearest name as help), missing or repeated value, a list with an
/// empty entry, too few or too many arguments.
llvm::Error checkCommandLine(llvm::ArrayRef<const char *> arguments, const ToolInfo &info);

/// Sets the cl::opt variables. Errors: Usage for a bad value.
llvm::Error readCommandLine(llvm::ArrayRef<const char *> arguments);

/// Errors: Usage if an entry of a list with commas is empty, such as one after a last comma. `text`
/// is the whole list.
llvm::Error expectNoneEmpty(const std::string &option, llvm::StringRef text,
                            llvm::ArrayRef<llvm::StringRef> entries);

/// Errors: Usage if the option is given with a number that is not in this range.
llvm::Error within(const IntegerOption &option, int64_t least, int64_t most);

/// Whether an option like --help is among the arguments (before "--").
bool asksFor(llvm::ArrayRef<const char *> arguments, llvm::StringRef option);

} // namespace pipec

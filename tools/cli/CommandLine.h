// The command line checked in our own words before llvm::cl reads it, and --help in a form that
// golden files can hold.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// True for what the tool declared; llvm::cl registers options of its own beside it.
bool isOwnOption(const llvm::cl::Option &option);

/// What a plan may have; beyond it, schedules fill the memory.
constexpr int64_t kMostMicroBatches = int64_t(1) << 20;

/// As users type it: "--stages", "-o".
std::string spelledOption(llvm::StringRef name);

/// The declared arguments that are no options, in order.
llvm::ArrayRef<llvm::cl::Option *> positionalOptions();
/// How such an argument is called in messages: its value_desc, else its desc.
std::string positionalName(const llvm::cl::Option &option);

/// Errors: Usage. Unknown option (nearest name as help), missing or repeated value, too few or too
/// many arguments.
llvm::Error checkCommandLine(llvm::ArrayRef<const char *> arguments, const ToolInfo &info);

/// Sets the cl::opt variables. Errors: Usage for a bad value.
llvm::Error readCommandLine(llvm::ArrayRef<const char *> arguments);

/// Whether an option like --help stands among the arguments (before "--").
bool asksFor(llvm::ArrayRef<const char *> arguments, llvm::StringRef option);

/// What --help prints. Options are sorted by name within their category, so the text depends on
/// nothing but the declarations.
std::string helpText(const ToolInfo &info);

} // namespace pipec

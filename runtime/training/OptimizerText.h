// Optimizers as text: "adamw,lr=1e-3,weight_decay=0.1". No LibTorch.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// Words with numbers after a name, as options write them. Prints and parses.
struct NamedSettings {
  std::string name;
  std::vector<std::pair<std::string, double>> settings; // all that the name has, in a fixed order

  double operator[](llvm::StringRef key) const;
  bool operator==(const NamedSettings &) const = default;
};

/// A name that exists, with its settings and their defaults.
struct SettingsRow {
  std::string name;
  std::vector<std::pair<std::string, double>> defaults;
};

/// Parses "name,key=number,...". `option` names the option in errors. A dash in a key is read as an
/// underscore. Errors: Usage listing the names, or the keys of the name, that exist.
llvm::Expected<NamedSettings> parseSettings(llvm::StringRef text, llvm::StringRef option,
                                            const std::vector<SettingsRow> &rows);
/// The name and all its settings.
std::string toString(const NamedSettings &settings);

/// The optimizers that exist, with PyTorch's defaults.
const std::vector<SettingsRow> &optimizerRows();
/// Errors: those of parseSettings; Usage for a number that the optimizer does not accept.
llvm::Expected<NamedSettings> parseOptimizer(llvm::StringRef text);
/// `settings` with other numbers: "lr=1e-4,weight_decay=0". Errors: as parseOptimizer.
llvm::Expected<NamedSettings> changedOptimizer(const NamedSettings &settings,
                                               llvm::StringRef changes, llvm::StringRef option);

} // namespace pipec

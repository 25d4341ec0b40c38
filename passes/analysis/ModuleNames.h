// Module names as users write them ("encoder.layers.6", "block#2") found in the order of the
// program.
#pragma once

#include "passes/analysis/TopLevel.h"

namespace pipec {

/// True when `path` (modulePathOf) is the module `name` or inside it. "a.b" is any call of it,
/// "a.b#2" the second one.
bool isInModule(llvm::StringRef path, llvm::StringRef name);

/// Errors: Usage for a name that cannot be one: an empty part, or a call that is no number from 1.
llvm::Error checkModuleName(llvm::StringRef name);

/// Where a cut at a name goes.
struct NamedPlace {
  size_t index = 0;    // of the top-level operator that comes first
  std::string instead; // the module whose operator that is, when the named one has none left
  std::string around;  // the operator inside of which the module begins, when it does
};

/// The first operator of the module in program order; of the next module that has one when it has
/// none left. With `mayMove` the one around it when it is inside a block and not the block's first.
/// Errors: Usage when there is no such module (with the nearest name) or call (with
/// their number), or nothing follows; Unsupported when it would have to move and may not.
llvm::Expected<NamedPlace> findModule(const Model &model, const TopLevel &top,
                                      const std::string &name, bool mayMove = false);

/// "a.b" of "a#2.b": the module itself, whichever call of it a path names.
std::string withoutCallNumbers(llvm::StringRef path);

} // namespace pipec

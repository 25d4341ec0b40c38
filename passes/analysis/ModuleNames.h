// Finds modules by the names that users write ("encoder.layers.6", "block#2"), in program order.
#pragma once

#include "passes/analysis/TopLevel.h"

namespace pipec {

enum class Refusal;

/// Errors: Usage for an invalid name: an empty part, or a call number that is not a number from 1.
llvm::Error checkModuleName(llvm::StringRef name);

/// The place of a cut at a name.
struct NamedPlace {
  size_t index = 0;    // of the first top-level operator after the cut
  std::string instead; // that operator's module, if the named one has no operators left
  std::string around;  // the operator that contains the module's start, if one does
  std::string unknown; // why a module without operators may have stood elsewhere, if it may
};

/// The place of a cut before `node`, which is the operator `index` of the top level or inside it:
/// before that operator, or after it if nothing is before. That is the same cut if the operator is
/// `node`, or a step that split-branches made and that begins with `node`. Otherwise `mayMove`
/// allows the place. Errors: `refusal` of `what` if the place may not move; the refusal
/// too-few-places if there is no other operator.
llvm::Expected<NamedPlace> placeOfCut(const Model &model, const TopLevel &top, size_t index,
                                      torch::jit::Node *node, bool mayMove, Refusal refusal,
                                      const std::string &what);

/// Finds the first operator of the module in program order. If the module has none left, finds that
/// of the next module that has one. If operators of the modules around it are between the modules
/// before and after it, its place among them is unknown: `mayMove` allows that of the next module.
/// If the operator is inside control flow, `mayMove` allows the place of placeOfCut(). `top`: of
/// the model. Errors: Usage if there is no such
/// module (with the nearest name) or call (with the number of calls), or if nothing follows;
/// Unsupported if the place would have to move and may not.
llvm::Expected<NamedPlace> findModule(const Model &model,
                                      const std::vector<std::string> &moduleCalls,
                                      const TopLevel &top, const std::string &name,
                                      bool mayMove = false);

/// True if `path` (of modulePathOf) is the module `name` or inside it. "a.b" means any call of the
/// module, "a.b#2" the second one.
bool isInModule(llvm::StringRef path, llvm::StringRef name);

/// "encoder.layers.2" if that module begins at the operator; else the operator. There is one before
/// it.
std::string placeBefore(const TopLevel &top, size_t index);

/// The module's name without call numbers: "a.b" for "a#2.b".
std::string withoutCallNumbers(llvm::StringRef path);

} // namespace pipec

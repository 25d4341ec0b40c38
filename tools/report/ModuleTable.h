// The modules of a TorchScript file as a table, or as JSON.
#pragma once

#include "llvm/Support/JSON.h"
#include "tools/report/ModuleTree.h"

#include <map>
#include <optional>

namespace pipec {

using ModuleCosts = std::map<std::string, int64_t>; // by module path; "" is the model

void printModules(llvm::raw_ostream &out, const std::vector<ModuleNode> &modules,
                  const std::optional<ModuleCosts> &costs);
llvm::json::Array modulesJson(const std::vector<ModuleNode> &modules,
                              const std::optional<ModuleCosts> &costs);

} // namespace pipec

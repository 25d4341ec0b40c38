// The modules by which reports and messages name a stage.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace pipec {

/// The modules of the first and of the last operator that name a stage; empty: none does.
struct ModuleExtent {
  std::string first, last;

  bool operator==(const ModuleExtent &) const = default;
};

/// `modules` has, per stage, the module of each operator in order. An operator of a module that is
/// cut does not name its stage if the stage also has operators of a submodule: the module is in
/// other stages, too.
///
///   layers.0 layers.0.norm | layers.0.wide layers.0 | head
///   =>  layers.0.norm .. layers.0.norm | layers.0.wide .. layers.0.wide | head .. head
std::vector<ModuleExtent> moduleExtents(llvm::ArrayRef<std::vector<std::string>> modules);

} // namespace pipec

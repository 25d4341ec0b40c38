// The attributes of a module and of all modules in it, one entry each.
#pragma once

#include "ir/Model.h"

#include <ATen/core/ivalue.h>

#include <set>
#include <string>
#include <vector>

namespace pipec {

/// One attribute of the module tree that is no module itself.
struct ModuleEntry {
  std::string path;
  c10::IValue value;
  c10::TypePtr type;
  AttributeKind kind = AttributeKind::Value;
  bool isModuleFlag = false; // `training` of a module, which follows the mode
  c10::IValue saved = {};    // the value, where a tuple took an object's place in `value`
};

/// In order of a walk from the top. An object of a class of the model's own is the values of its
/// attributes, as a module is; `objects` gets the paths of such.
std::vector<ModuleEntry> moduleEntries(const c10::ivalue::Object &module,
                                       std::set<std::string> &objects);

} // namespace pipec

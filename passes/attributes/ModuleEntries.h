// The attributes of a module and of its submodules, one entry each.
#pragma once

#include "ir/Model.h"

#include <ATen/core/ivalue.h>

#include <set>
#include <string>
#include <vector>

namespace pipec {

/// One attribute of the module tree that is not a module itself.
struct ModuleEntry {
  std::string path;
  c10::IValue value;
  c10::TypePtr type;
  AttributeKind kind = AttributeKind::Value;
  bool isModuleFlag = false; // `training` of a module, which follows the mode
  c10::IValue saved = {};    // the saved value, if a tuple replaced an object in `value`
  bool isPlain = false;      // a tensor that is neither a parameter nor a buffer of its module
};

/// Entries in order of a walk from the top. An object of one of the model's own classes counts as
/// the values of its attributes, like a module; `objects` gets the paths of such objects.
std::vector<ModuleEntry> moduleEntries(const c10::ivalue::Object &module,
                                       std::set<std::string> &objects);

} // namespace pipec

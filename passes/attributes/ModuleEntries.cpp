#include "passes/attributes/ModuleEntries.h"

#include <ATen/core/class_type.h>

namespace pipec {

namespace {

/// Whether an object is represented by its attributes, as a module is: it has a class of the model.
/// An object that is reached a second time, under another name or from itself, stays an object,
/// because an assignment under one name is visible under the other.
bool isItsAttributes(const c10::IValue &value, const c10::TypePtr &declared,
                     std::set<const void *> &seen) {
  return value.isObject() && declared->kind() == c10::TypeKind::ClassType &&
         !value.isCustomClass() && seen.insert(value.toObject().get()).second;
}

void collectEntries(const c10::ivalue::Object &object, const std::string &prefix,
                    std::set<const void *> &seen, std::vector<ModuleEntry> &entries,
                    std::set<std::string> &objects) {
  c10::ClassTypePtr type = object.type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    std::string path = prefix + type->getAttributeName(i);
    c10::IValue value = object.getSlot(i);
    const bool isModule = type->getAttribute(i)->is_module() ||
                          (value.isObject() && value.toObject()->type()->is_module());
    if (isModule || isItsAttributes(value, type->getAttribute(i), seen)) {
      if (!isModule)
        objects.insert(path);
      collectEntries(value.toObjectRef(), path + ".", seen, entries, objects);
      continue;
    }
    ModuleEntry entry{path, value, type->getAttribute(i)};
    entry.isModuleFlag = type->is_module() && type->getAttributeName(i) == "training";
    const bool isParameter = type->is_module() && type->is_parameter(i);
    const bool isBuffer = type->is_module() && type->is_buffer(i);
    entry.isPlain = value.isTensor() && !isParameter && !isBuffer;
    if (isParameter)
      entry.kind = AttributeKind::Parameter;
    else if (value.isTensor() || isBuffer)
      entry.kind = AttributeKind::Buffer;
    else if (value.isObject() || value.isCapsule())
      entry.kind = AttributeKind::Object;
    entries.push_back(std::move(entry));
  }
}

} // namespace

std::vector<ModuleEntry> moduleEntries(const c10::ivalue::Object &module,
                                       std::set<std::string> &objects) {
  std::set<const void *> seen;
  std::vector<ModuleEntry> entries;
  collectEntries(module, "", seen, entries, objects);
  return entries;
}

} // namespace pipec

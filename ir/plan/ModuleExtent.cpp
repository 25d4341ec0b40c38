#include "ir/plan/ModuleExtent.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <set>

namespace pipec {

namespace {

/// "a" and "a.b" of "a.b.c".
void forEachModuleAround(const std::string &path,
                         llvm::function_ref<void(const std::string &)> visit) {
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
    visit(path.substr(0, dot));
}

/// The modules that have operators, their own or their submodules', in several stages.
std::set<std::string> cutModules(llvm::ArrayRef<std::vector<std::string>> modules) {
  std::map<std::string, size_t> stageOf;
  std::set<std::string> cut;
  for (size_t s = 0; s < modules.size(); ++s) {
    auto note = [&](const std::string &module) {
      if (stageOf.try_emplace(module, s).first->second != s)
        cut.insert(module);
    };
    for (const std::string &path : modules[s]) {
      note(path);
      forEachModuleAround(path, note);
    }
  }
  return cut;
}

} // namespace

std::vector<ModuleExtent> moduleExtents(llvm::ArrayRef<std::vector<std::string>> modules) {
  const std::set<std::string> cut = cutModules(modules);
  std::vector<ModuleExtent> extents;
  for (const std::vector<std::string> &stage : modules) {
    std::set<std::string> around; // what the stage has submodules of
    for (const std::string &path : stage)
      forEachModuleAround(path, [&](const std::string &module) { around.insert(module); });
    ModuleExtent &extent = extents.emplace_back();
    for (const std::string &path : stage) {
      if (around.count(path) && cut.count(path))
        continue;
      if (extent.first.empty())
        extent.first = path;
      extent.last = path;
    }
  }
  return extents;
}

} // namespace pipec

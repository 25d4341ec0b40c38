// Libraries of operators for Python list parts of PyTorch as dependencies, by name only, because
// Python has loaded these before. Here they are found beside the LibTorch in use.
#include "tools/cli/LoadLibrary.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>
#include <link.h>
#include <optional>
#include <set>
#include <string>

namespace pipec {

namespace {

constexpr const char *kPythonPart = "libtorch_python.so";

/// Empty if it loads; otherwise the loader's message.
std::string tryLoad(const std::string &path) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return "";
  const char *why = dlerror();
  return why ? why : "unknown reason";
}

/// The file name of a missing dependency of the library.
std::optional<std::string> missingNeed(llvm::StringRef why) {
  auto [name, rest] = why.split(": ");
  if (rest.empty() || !startsWith(rest, "cannot open shared object file") || name.contains('/'))
    return std::nullopt;
  return name.str();
}

std::string torchDirectory() {
  void *handle = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  link_map *map = nullptr;
  if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
    return "";
  return llvm::sys::path::parent_path(map->l_name).str();
}

/// Beside LibTorch, except the Python part: that is the empty library that comes with pipec.
std::string placeOf(const std::string &need) {
  llvm::SmallString<256> path(torchDirectory());
  if (need == kPythonPart) {
    path = llvm::sys::path::parent_path(llvm::sys::fs::getMainExecutable(nullptr, nullptr));
    llvm::sys::path::append(path, "..", "lib", "pipec");
  }
  llvm::sys::path::append(path, need);
  return path.str().str();
}

} // namespace

llvm::Error loadLibrary(const std::string &path) {
  std::string why = tryLoad(path);
  std::set<std::string> tried;
  for (std::optional<std::string> need = missingNeed(why); need && tried.insert(*need).second;
       need = missingNeed(why)) {
    if (!tryLoad(placeOf(*need)).empty())
      break;
    why = tryLoad(path);
  }
  if (why.empty())
    return llvm::Error::success();
  const bool wantsPython = llvm::StringRef(why).contains("undefined symbol: Py") ||
                           llvm::StringRef(why).contains("undefined symbol: _Py");
  return makeError(ExitCode::IO, "--load-library " + path + ": cannot load: " + why,
                   wantsPython ? "it calls Python, which pipec does not load; build its operators "
                                 "as a separate library (TORCH_LIBRARY in C++, without bindings)"
                               : "pass a shared library (.so) of operators that is built for the "
                                 "LibTorch in use");
}

} // namespace pipec

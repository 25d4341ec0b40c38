#include "tools/LoadLibrary.h"

#include <dlfcn.h>

namespace pipec {

llvm::Error loadLibrary(const std::string &path) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return llvm::Error::success();
  const char *why = dlerror();
  return failf(ExitCode::IO, "--load-library {}: cannot load: {}", path,
               why ? why : "unknown reason");
}

} // namespace pipec

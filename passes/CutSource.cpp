#include "passes/CutSource.h"

#include "llvm/Support/ErrorHandling.h"

namespace pipec {

llvm::StringRef toString(CutSource source) {
  switch (source) {
  case CutSource::Auto:
    return "auto";
  case CutSource::Markers:
    return "markers";
  case CutSource::At:
    return "at";
  }
  llvm_unreachable("unknown source of cuts");
}

} // namespace pipec

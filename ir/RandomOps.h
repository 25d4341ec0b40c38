// The table of random operators. Compiler and runtime count them alike: the n-th random operator of
// the source has ordinal n.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace pipec {

/// Whether operators of this qualified name ("aten::dropout", any overload) take an ordinal. The
/// name alone decides: a dropout that is off and an lstm without dropout count as well, so that
/// ordinals do not depend on values.
bool isRandomOp(llvm::StringRef qualifiedName);

/// All names, sorted.
llvm::ArrayRef<llvm::StringRef> randomOps();

} // namespace pipec

// Which attributes a method writes, directly or through anything that they hold at any depth.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

struct Model;

/// For one lowered model. `saved` is the content of each attribute in the model's file. Errors:
/// Unsupported if something written is held by two attributes that would be separate in the stages.
llvm::Expected<std::vector<bool>> writtenAttributes(const Model &model,
                                                    llvm::ArrayRef<c10::IValue> saved);

} // namespace pipec

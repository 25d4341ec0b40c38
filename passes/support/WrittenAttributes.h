// Which attributes a method writes: themselves, or anything that they hold at any depth.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

struct Model;

/// Of one lowered model. saved: what each attribute holds in the model's file. Errors: Unsupported
/// when something written is held by two attributes that would be two things in the stages.
llvm::Expected<std::vector<bool>> writtenAttributes(const Model &model,
                                                    llvm::ArrayRef<c10::IValue> saved);

} // namespace pipec

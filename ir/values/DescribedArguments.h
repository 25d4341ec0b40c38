// Random arguments from a description.
#pragma once

#include "ir/support/Error.h"
#include "ir/values/Arguments.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace pipec {

/// Random values from a description: "f32[8,3,224,224],i64[8,128]<30000". The seed depends on the
/// position, so the same text gives the same bits. dtypes: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool
/// c64; "<N" bounds integers (default 2).
llvm::Expected<Arguments> describedArguments(llvm::StringRef text, uint64_t seed = 0);

/// Refuses arguments that do not fit, by types and sizes alone: the tensors have no elements.
using ShapeCheck = llvm::function_ref<llvm::Error(const Arguments &shapes)>;

/// Reads a file if one of that name exists or the text cannot be a description; otherwise the
/// description. Errors: those of readArguments(); Usage for a wrong description, and for tensors of
/// more than a quarter of the machine's memory, as copies of expanded tensors need it; those of
/// `check`, which sees a description before its tensors are made.
llvm::Expected<Arguments> argumentsFromOption(const std::string &text, ShapeCheck check = nullptr);
/// The arguments of several texts, one after the other. `check` sees those of all together before
/// the tensors of any description are made.
llvm::Expected<Arguments> argumentsFromOptions(llvm::ArrayRef<std::string> texts, ShapeCheck check);

} // namespace pipec

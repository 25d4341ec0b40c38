// Values other than weights (numbers, strings, lists, small tensors) as JSON. Their type guides the
// reader.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Writes None, bool, int, float, complex, str, device, and lists, tuples and dicts of these, and
/// tensors of up to 256 bytes. Floats and complex numbers are strings with all their digits ("inf"
/// and "nan" included); dicts are arrays of pairs. Errors: Unsupported naming the type that has no
/// text form.
llvm::Expected<llvm::json::Value> valueToJson(const c10::IValue &value);

/// The value of `type` that `json` describes. Errors: Unreadable (expected <type>, got <json>).
llvm::Expected<c10::IValue> valueFromJson(const llvm::json::Value &json, const c10::TypePtr &type);

/// The same for text that describes more of a tensor than its elements (the memory that it shares).
/// Every tensor inside the value, also an undefined one, goes through `tensors` in the order of the
/// text.
using TensorWriter = llvm::function_ref<llvm::Expected<llvm::json::Value>(const at::Tensor &)>;
using TensorReader = llvm::function_ref<llvm::Expected<at::Tensor>(const llvm::json::Value &)>;
llvm::Expected<llvm::json::Value> valueToJson(const c10::IValue &value, TensorWriter tensors);
llvm::Expected<c10::IValue> valueFromJson(const llvm::json::Value &json, const c10::TypePtr &type,
                                          TensorReader tensors);

/// Shortest decimal that reads back to the same double; always with a point or exponent, or inf,
/// -inf, nan.
std::string floatText(double value);

} // namespace pipec

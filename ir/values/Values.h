// Values files and descriptions: the formats of --inputs, --expect and --output.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Arguments as the user gave them: positional or by keyword.
struct Arguments {
  std::vector<c10::IValue> positional;
  std::vector<std::pair<std::string, c10::IValue>> keyword;
};

/// Reads a file written by torch.save (tuple or list: positional arguments; dict with string keys:
/// keyword arguments; single tensor: the only argument). Errors: IO, Unreadable with one sentence
/// for each kind of content that is refused.
llvm::Expected<Arguments> readArguments(const std::string &path);
/// Converts a value to arguments, as above. `what` names it in errors. Errors: Unreadable.
llvm::Expected<Arguments> argumentsOfValue(const std::string &what, const c10::IValue &value);
/// The value in the file, unchanged.
llvm::Expected<c10::IValue> readValue(const std::string &path);

/// Random values from a description: "f32[8,3,224,224],i64[8,128]<30000". The seed depends on the
/// position, so the same text gives the same bits. dtypes: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool
/// c64; "<N" bounds integers (default 2).
llvm::Expected<Arguments> describedArguments(llvm::StringRef text, uint64_t seed = 0);

/// Reads a file if one of that name exists or the text cannot be a description; otherwise the
/// description.
llvm::Expected<Arguments> argumentsFromOption(const std::string &text);

/// Writes a file that the default torch.load reads (plain tuples, lists and dicts). Written
/// atomically; the same value gives the same bytes. Errors: IO; Unsupported for a value without a
/// plain form (a device, an object).
llvm::Error writeValue(const std::string &path, const c10::IValue &value);

/// Returns one value per input of the signature, in order: positional first, then keywords, then
/// defaults. Each is converted to the declared type (a generic list becomes List[Tensor], a dict
/// Dict[str, Tensor]). `types` has the declared type of each input. Errors: Usage naming the
/// argument (too many, unknown keyword, missing, wrong type: expected <x>, got <y>).
llvm::Expected<std::vector<c10::IValue>> bindArguments(const Signature &signature,
                                                       llvm::ArrayRef<c10::TypePtr> types,
                                                       const Arguments &arguments);

/// The value as a declared type has it: a generic list becomes List[Tensor]. Nothing: it has
/// another type.
std::optional<c10::IValue> asDeclared(const c10::IValue &value, const c10::TypePtr &type);

/// The given arguments on one line: "x: int64[2, 64], more: [float32[3], ... 12 in all], n: 3".
std::string argumentsText(const Signature &signature, llvm::ArrayRef<c10::IValue> values);
/// Adds that line to a failure of kind Usage that came from running the model. Other errors stay
/// unchanged.
llvm::Error withArguments(llvm::Error error, const Signature &signature,
                          llvm::ArrayRef<c10::IValue> values);

/// Calls `visit` on each tensor in a tree, depth first.
void forEachTensor(const c10::IValue &value, llvm::function_ref<void(const at::Tensor &)> visit);
/// A copy of the tree with every tensor replaced by the result of `map`; containers keep their
/// types.
c10::IValue mapTensors(const c10::IValue &value,
                       llvm::function_ref<at::Tensor(const at::Tensor &)> map);

/// "a list of 3" or "a value of type Tensor": in the words of a user, not in LibTorch's.
std::string describedKind(const c10::IValue &value);

struct Comparison {
  bool equal = true;
  int64_t numbers = 0; // number of elements compared; tensors whose shapes or dtypes differ are not
                       // compared
  double maxAbs = 0, maxRel = 0;
  std::string firstDifference; // "output 1.logits[0,3]: expected 0.5, got 0.25"; empty when equal
  std::string where, expected, actual; // the parts of that: "1.logits[0,3]", "0.5", "0.25"
};
/// Compares trees. Without rtol and atol: the defaults of torch.testing.assert_close for the dtype.
/// Both 0: bit for bit (NaN equals NaN).
Comparison compare(const c10::IValue &expected, const c10::IValue &actual,
                   std::optional<double> rtol, std::optional<double> atol);

} // namespace pipec

#include "compiler/samples/SamplePlaces.h"

#include "compiler/samples/SampleOperators.h"
#include "ir/NodeInfo.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;
using Names = llvm::StringSet<>;

/// Numbers that are constants, whether the list is or its entries are; 0 for all others.
static std::vector<int64_t> constantsIn(const Value *list) {
  const std::optional<c10::IValue> constant = torch::jit::toIValue(list);
  if (constant && constant->isIntList())
    return constant->toIntVector();
  std::vector<int64_t> numbers;
  if (list->node()->kind() == c10::prim::ListConstruct)
    for (const Value *one : list->node()->inputs())
      numbers.push_back(constantInt(one).value_or(0));
  return numbers;
}

/// Rows appended behind the last one move no others, unless they are copies of others.
static bool padsBefore(Node *node, const BatchForms &forms) {
  static const Names kPads = {"pad", "constant_pad_nd"};
  if (!isIn(kPads, node))
    return false;
  const std::vector<bool> &dims = forms.of(node->input(0)).dims;
  const std::vector<int64_t> rows = constantsIn(node->input(1));
  Value *mode = inputNamed(node, "mode");
  const std::optional<c10::IValue> named = mode ? torch::jit::toIValue(mode) : std::nullopt;
  const bool copies = named && named->isString() && named->toStringRef() != "constant";
  for (size_t k = 0; k + 1 < rows.size() && k / 2 < dims.size(); k += 2)
    if (dims[dims.size() - 1 - k / 2] &&
        (rows[k] != 0 || rows[k + 1] < 0 || (copies && rows[k + 1])))
      return true;
  return false;
}

/// Whether a row of an index is the place of another sample's row. `rows`: per sample, of the
/// tensor that is indexed.
static bool takesOthers(const Value *index, int64_t rows, SizeValues &sizes) {
  constexpr int64_t kSamples[] = {3, 5, 8, 65, 257, 1025, 4096};
  for (const int64_t samples : kSamples) {
    const std::optional<c10::IValue> content = sizes.at(index, samples);
    if (!content || !content->isTensor() || content->toTensor().dim() != 1 ||
        !c10::isIntegralType(content->toTensor().scalar_type(), /*includeBool=*/false))
      return false;
    const at::Tensor places = content->toTensor().to(at::kLong);
    if (places.numel() == 0 || places.numel() % samples != 0)
      return false;
    const int64_t copies = places.numel() / samples;
    const at::Tensor from =
                         at::where(places < 0, places + rows * samples, places).floor_divide(rows),
                     all = at::arange(places.numel());
    if (!from.equal(all.floor_divide(copies)) && !from.equal(all.remainder(samples)))
      return true;
  }
  return false;
}

bool movesSamples(Node *node, const BatchForms &forms, SizeValues &sizes) {
  static const Names kAlong = {"index_select", "index_add", "index_copy", "index_fill"};
  static const Names kEach = {"index", "index_put", "_index_put_impl"};
  if (node->inputs().size() < 2 || !isTensor(node->input(0)) || !forms.of(node->input(0)).any())
    return false;
  auto takes = [&](Value *index, int64_t dim) {
    const int64_t rows = forms.rowsPerSample(node->input(0), dim);
    return rows > 0 && isTensor(index) && sizes.follows(index) && takesOthers(index, rows, sizes);
  };
  if (isIn(kAlong, node)) {
    Value *index = inputNamed(node, "index"), *dim = inputNamed(node, "dim");
    if (!index || !dim)
      return false;
    const std::optional<int64_t> along = constantInt(dim);
    const auto rank = static_cast<int64_t>(forms.of(node->input(0)).dims.size());
    return along && takes(index, *along < 0 ? *along + rank : *along);
  }
  if (!isIn(kEach, node))
    return padsBefore(node, forms);
  const Node *list = node->input(1)->node();
  for (size_t dim = 0; list->kind() == c10::prim::ListConstruct && dim < list->inputs().size();
       ++dim)
    if (takes(const_cast<Value *>(list->input(dim)), static_cast<int64_t>(dim)))
      return true;
  return false;
}

} // namespace pipec

#include "ir/values/ValueTree.h"

#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/MapTensors.h"
#include "ir/values/TensorViews.h"
#include "ir/values/ValueFiles.h"

#include <ATen/core/Dict.h>
#include <ATen/ops/empty.h>

#include <limits>

namespace pipec {
namespace {

llvm::Expected<at::Tensor> tensorOfView(const TensorView &view, const std::string &name) {
  std::optional<at::ScalarType> dtype = dtypeFromText(view.dtype);
  if (!dtype)
    return failf(ExitCode::Usage, "{}: expected a dtype as float32, got \"{}\"", name, view.dtype);
  uint64_t expected = at::elementSize(*dtype);
  for (int64_t size : view.shape) {
    bool fits = size >= 0 &&
                !__builtin_mul_overflow(expected, static_cast<uint64_t>(size), &expected) &&
                expected <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!fits)
      return failf(ExitCode::Usage, "{}: expected sizes that memory can hold, got {}", name, size);
  }
  if (view.bytes != expected)
    return failf(ExitCode::Usage, "{}: expected {} bytes, got {}", name, expected, view.bytes);
  at::Tensor tensor =
      TRY(guardTorch(ExitCode::Usage, name, [&] { return at::empty(view.shape, *dtype); }));
  llvm::StringRef elements(static_cast<const char *>(view.data), view.bytes);
  TRY(setElements(tensor, elements));
  return tensor;
}

} // namespace

ValueTree ValueTree::of(const c10::IValue &value) {
  return ValueTree(std::make_shared<const c10::IValue>(value));
}

llvm::Expected<ValueTree> ValueTree::read(const std::string &fileOrDescription) {
  Arguments arguments = TRY(argumentsFromOption(fileOrDescription));
  if (arguments.keyword.empty())
    return of(c10::ivalue::Tuple::create(std::move(arguments.positional)));
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (auto &[name, value] : arguments.keyword)
    dict.insert(name, std::move(value));
  return of(dict);
}

llvm::Expected<ValueTree> ValueTree::ofTensors(llvm::ArrayRef<TensorView> tensors) {
  std::vector<c10::IValue> elements;
  for (const TensorView &view : tensors) {
    at::Tensor tensor = TRY(tensorOfView(view, fmt::format("tensor {}", elements.size())));
    elements.emplace_back(std::move(tensor));
  }
  return of(c10::ivalue::Tuple::create(std::move(elements)));
}

llvm::Expected<ValueTree> ValueTree::tensor(const TensorView &view) {
  at::Tensor tensor = TRY(tensorOfView(view, "tensor"));
  return of(tensor);
}

llvm::Error ValueTree::write(const std::string &path) const { return writeValue(path, *value_); }

llvm::Error ValueTree::forEachTensor(llvm::function_ref<void(const TensorView &)> visit) const {
  llvm::Error first = llvm::Error::success();
  pipec::forEachTensor(*value_, [&](const at::Tensor &tensor) {
    if (first)
      return;
    llvm::Expected<std::string> dtype = viewableDtype(tensor);
    if (!dtype) {
      first = dtype.takeError();
      return;
    }
    llvm::Expected<at::Tensor> plain = plainTensor(tensor);
    if (!plain) {
      first = plain.takeError();
      return;
    }
    visit({*dtype, plain->sizes().vec(), plain->const_data_ptr(), plain->nbytes()});
  });
  return first;
}

} // namespace pipec

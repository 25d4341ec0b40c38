#include "ir/values/DescribedArguments.h"

#include "ir/TorchError.h"
#include "ir/support/Llvm.h"
#include "ir/support/MachineMemory.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace pipec {

namespace {

struct Dtype {
  llvm::StringLiteral name;
  at::ScalarType type;
  int bits; // of the integers it holds; 0: not an integer dtype
};

constexpr Dtype kDtypes[] = {
    {"f16", at::kHalf, 0},   {"bf16", at::kBFloat16, 0},    {"f32", at::kFloat, 0},
    {"f64", at::kDouble, 0}, {"c64", at::kComplexFloat, 0}, {"i8", at::kChar, 7},
    {"i16", at::kShort, 15}, {"i32", at::kInt, 31},         {"i64", at::kLong, 62},
    {"u8", at::kByte, 8},    {"bool", at::kBool, 1},
};

/// One tensor of a description.
struct Item {
  const Dtype *dtype = nullptr;
  llvm::SmallVector<int64_t> sizes;
  int64_t bound = 2;
};

const char *kExample = "write it as f32[8,3,224,224] or i64[8,128]<30000; dtypes: f16 bf16 f32 f64 "
                       "i8 i16 i32 i64 u8 bool c64";

llvm::Error wrong(llvm::StringRef text, const std::string &what) {
  return makeError(ExitCode::Usage, fmt::format("inputs \"{}\": {}", text.str(), what), kExample);
}

/// Takes the dtype and the opening bracket from the front; nullptr leaves `rest` as it was.
const Dtype *takeDtype(llvm::StringRef &rest) {
  for (const Dtype &dtype : kDtypes)
    if (startsWith(rest, dtype.name) && startsWith(rest.drop_front(dtype.name.size()), "[")) {
      rest = rest.drop_front(dtype.name.size() + 1);
      return &dtype;
    }
  return nullptr;
}

llvm::Expected<Item> takeItem(llvm::StringRef whole, llvm::StringRef &rest) {
  Item item;
  std::string at = fmt::format("at \"{}\"", rest.str());
  item.dtype = takeDtype(rest);
  if (!item.dtype)
    return wrong(whole, "expected a dtype and [ " + at);
  int64_t elements = 1;
  while (!rest.consume_front("]")) {
    int64_t size = 0;
    if ((!item.sizes.empty() && !rest.consume_front(",")) || rest.consumeInteger(10, size))
      return wrong(whole, "expected whole numbers with commas between them, then ], " + at);
    if (size < 0)
      return wrong(whole, fmt::format("expected sizes of 0 or more, got {} {}", size, at));
    if (__builtin_mul_overflow(elements, size, &elements) || elements > (int64_t(1) << 48))
      return wrong(whole, "too many elements " + at);
    item.sizes.push_back(size);
  }
  if (!rest.consume_front("<"))
    return item;
  if (item.dtype->bits == 0)
    return wrong(whole,
                 "expected a bound for integers only, got one for " + item.dtype->name.str());
  int64_t largest = int64_t(1) << item.dtype->bits;
  if (rest.consumeInteger(10, item.bound) || item.bound < 1 || item.bound > largest)
    return wrong(whole, fmt::format("expected a bound from 1 to {} {}", largest, at));
  return item;
}

llvm::Expected<std::vector<Item>> parseDescription(llvm::StringRef text) {
  std::vector<Item> items;
  llvm::StringRef rest = text;
  do {
    auto item = TRY(takeItem(text, rest));
    items.push_back(std::move(item));
  } while (rest.consume_front(","));
  if (!rest.empty())
    return wrong(text, fmt::format("expected a comma or the end at \"{}\"", rest.str()));
  return items;
}

int64_t elementsOf(const Item &item) {
  int64_t elements = 1;
  for (int64_t size : item.sizes)
    elements *= size;
  return elements;
}

/// The elements as they are drawn; randomTensor() converts them.
at::ScalarType drawnAs(const Item &item) {
  if (item.dtype->bits > 0)
    return at::kLong;
  return item.dtype->type == at::kDouble || item.dtype->type == at::kComplexFloat ? item.dtype->type
                                                                                  : at::kFloat;
}

int64_t memoryLimit() {
  constexpr int64_t kShare = 4; // of the memory
  return machineMemoryBytes() / kShare;
}

llvm::Error tooLarge(const std::string &inputs, const std::string &size, std::string help = "") {
  return makeError(
      ExitCode::Usage,
      fmt::format("inputs {}: expected tensors of at most {}, a quarter of this machine's memory, "
                  "as runs hold copies of them, got {}",
                  inputs, formatBytes(memoryLimit()), size),
      std::move(help));
}

/// Refuses tensors that would fill the machine: such an allocation may succeed and fail when it is
/// written, and runs hold copies and results beside them.
llvm::Error checkMemory(llvm::StringRef text, llvm::ArrayRef<Item> items) {
  int64_t all = 0, most = 0; // most: while the largest is converted
  for (const Item &item : items) {
    const int64_t elements = elementsOf(item);
    const int64_t bytes = elements * static_cast<int64_t>(at::elementSize(item.dtype->type));
    const bool converted = drawnAs(item) != item.dtype->type;
    if (__builtin_add_overflow(all, bytes, &all))
      return wrong(text, "too many elements");
    if (converted)
      most = std::max(most, elements * static_cast<int64_t>(at::elementSize(drawnAs(item))));
  }
  if (all <= memoryLimit() && most <= machineMemoryBytes() - all)
    return llvm::Error::success();
  return tooLarge("\"" + text.str() + "\"",
                  formatBytes(all) +
                      (most > 0 ? fmt::format(" and {} to draw them", formatBytes(most)) : ""));
}

/// The same of a file, whose tensors may be expanded: a small file, but copies have every element.
llvm::Error checkMemory(const std::string &path, const Arguments &arguments) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t all = 0, most = 0;
  std::string largest;
  auto add = [&](const std::string &name, const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_nested())
      return;
    int64_t bytes = static_cast<int64_t>(tensor.element_size());
    for (int64_t size : tensor.sizes())
      if (__builtin_mul_overflow(bytes, size, &bytes))
        bytes = kMost;
    if (__builtin_add_overflow(all, bytes, &all))
      all = kMost;
    if (bytes <= most)
      return;
    most = bytes;
    largest = fmt::format("argument {} is {}", name, tensorHeadText(tensor));
  };
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    forEachTensor(arguments.positional[i],
                  [&](const at::Tensor &tensor) { add(std::to_string(i), tensor); });
  for (const auto &[name, value] : arguments.keyword)
    forEachTensor(value, [&](const at::Tensor &tensor) { add(name, tensor); });
  if (all <= memoryLimit())
    return llvm::Error::success();
  return tooLarge(path, formatBytes(all) + "; " + largest,
                  "pass smaller inputs; a copy of an expanded tensor has all of its elements");
}

/// SplitMix64: our own, so that no LibTorch version or vector width changes the bits.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound));
  }
  /// Standard normal (Box-Muller).
  double normal() {
    double u = (static_cast<double>(bits() >> 11) + 1) * 0x1p-53,
           v = static_cast<double>(bits() >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

private:
  uint64_t state_;
};

at::Tensor randomTensor(const Item &item, Random random) {
  if (item.dtype->bits > 0) {
    at::Tensor tensor = at::empty(item.sizes, drawnAs(item));
    auto *at = tensor.mutable_data_ptr<int64_t>();
    for (int64_t i = 0, n = tensor.numel(); i < n; ++i)
      at[i] = random.below(item.bound);
    return tensor.to(item.dtype->type);
  }
  bool complex = item.dtype->type == at::kComplexFloat;
  auto sizes = item.sizes;
  if (complex)
    sizes.push_back(2);
  at::Tensor tensor = at::empty(sizes, complex ? at::kFloat : drawnAs(item));
  for (int64_t i = 0, n = tensor.numel(); i < n; ++i) {
    if (tensor.scalar_type() == at::kDouble)
      tensor.mutable_data_ptr<double>()[i] = random.normal();
    else
      tensor.mutable_data_ptr<float>()[i] = static_cast<float>(random.normal());
  }
  return complex ? at::view_as_complex(tensor) : tensor.to(item.dtype->type);
}

/// The tensors of a description without their elements.
llvm::Expected<Arguments> describedShapes(llvm::StringRef text) {
  const auto items = TRY(parseDescription(text));
  TRY(checkMemory(text, items));
  return guardTorch(ExitCode::Usage, "inputs " + text.str(), [&] {
    Arguments shapes;
    for (const Item &item : items)
      shapes.positional.emplace_back(
          at::empty(item.sizes, at::TensorOptions(item.dtype->type).device(at::kMeta)));
    return shapes;
  });
}

/// A file is hardly ever named f32[8,3], so a mistyped description is not looked up on disk.
bool isDescription(const std::string &text) {
  llvm::StringRef rest = text;
  return !llvm::sys::fs::exists(text) &&
         (takeDtype(rest) != nullptr || llvm::StringRef(text).contains('['));
}

llvm::Expected<Arguments> argumentsOfFile(const std::string &path) {
  Arguments arguments = TRY(readArguments(path));
  TRY(checkMemory(path, arguments));
  return arguments;
}

Arguments joined(const std::vector<Arguments> &parts) {
  Arguments all;
  for (const Arguments &part : parts) {
    llvm::append_range(all.positional, part.positional);
    llvm::append_range(all.keyword, part.keyword);
  }
  return all;
}

} // namespace

llvm::Expected<Arguments> describedArguments(llvm::StringRef text, uint64_t seed) {
  auto items = TRY(parseDescription(text));
  TRY(checkMemory(text, items));
  Arguments arguments;
  for (size_t i = 0; i < items.size(); ++i) {
    Random position(seed + i); // one further step decorrelates neighbours
    at::Tensor tensor = TRY(guardTorch(ExitCode::Usage, "making inputs " + text.str(), [&] {
      return randomTensor(items[i], Random(position.bits()));
    }));
    arguments.positional.emplace_back(std::move(tensor));
  }
  return arguments;
}

llvm::Expected<Arguments> argumentsFromOption(const std::string &text, ShapeCheck check) {
  return argumentsFromOptions(text, check);
}

llvm::Expected<Arguments> argumentsFromOptions(llvm::ArrayRef<std::string> texts,
                                               ShapeCheck check) {
  std::vector<bool> described;
  std::vector<Arguments> parts;
  for (const std::string &text : texts) {
    described.push_back(isDescription(text));
    Arguments part = TRY(described.back() ? describedShapes(text) : argumentsOfFile(text));
    parts.push_back(std::move(part));
  }
  if (check && llvm::is_contained(described, true))
    TRY(check(joined(parts)));
  for (size_t i = 0; i < texts.size(); ++i)
    if (described[i]) {
      Arguments part = TRY(describedArguments(texts[i]));
      parts[i] = std::move(part);
    }
  return joined(parts);
}

} // namespace pipec

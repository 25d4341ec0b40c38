#include "ir/values/CompareValues.h"

#include "ir/TensorBytes.h"
#include "ir/plan/OutputPath.h"
#include "ir/values/Elements.h"
#include "llvm/ADT/StringRef.h"

#include <ATen/ops/view_as_real.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

namespace pipec {

std::string describedKind(const c10::IValue &value) {
  if (value.isList())
    return fmt::format("a list of {}", value.toListRef().size());
  if (value.isGenericDict())
    return fmt::format("a dict of {}", value.toGenericDict().size());
  if (value.isTuple())
    return fmt::format("a tuple of {}", value.toTupleRef().elements().size());
  return "a value of type " + value.tagKind();
}

namespace {

struct Tolerance {
  double rtol, atol;
};

/// The table of torch.testing.assert_close.
Tolerance defaultTolerance(at::ScalarType type) {
  if (type == at::kHalf || type == at::kComplexHalf)
    return {1e-3, 1e-5};
  if (type == at::kBFloat16)
    return {1.6e-2, 1e-5};
  if (type == at::kFloat || type == at::kComplexFloat || c10::isQIntType(type))
    return {1.3e-6, 1e-5};
  if (type == at::kDouble || type == at::kComplexDouble)
    return {1e-7, 1e-7};
  return {0, 0};
}

/// Elements in index order as double or int64: both conversions keep different values different.
at::Tensor comparable(at::Tensor tensor) {
  tensor = tensor.detach().cpu();
  if (tensor.is_quantized())
    tensor = tensor.dequantize();
  if (tensor.layout() != at::kStrided)
    tensor = tensor.to_dense();
  tensor = tensor.resolve_conj().resolve_neg();
  if (tensor.is_complex())
    tensor = at::view_as_real(tensor.to(at::kComplexDouble));
  return tensor.to(tensor.is_floating_point() ? at::kDouble : at::kLong).contiguous();
}

bool sameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool close(double expected, double actual, Tolerance tolerance) {
  if (tolerance.rtol == 0 && tolerance.atol == 0)
    return sameBits(expected, actual);
  if (expected == actual || sameBits(expected, actual))
    return true;
  double difference = std::abs(expected - actual);
  return std::isfinite(difference) &&
         difference <= tolerance.atol + tolerance.rtol * std::abs(expected);
}

std::string indexText(int64_t flat, at::IntArrayRef sizes) {
  std::string text;
  for (size_t d = sizes.size(); d-- > 0; flat /= sizes[d])
    text = std::to_string(flat % sizes[d]) + (text.empty() ? "" : ",") + text;
  return "[" + text + "]";
}

/// A number with the digits of its dtype: a float32 does not need those of a double.
std::string numberText(double value, at::ScalarType type) {
  bool narrow = type != at::kDouble && type != at::kComplexDouble;
  return narrow ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

class Comparer {
public:
  Comparer(std::optional<double> rtol, std::optional<double> atol, const std::string &root)
      : rtol_(rtol), atol_(atol), root_(root) {}
  Comparison result;

  void trees(const c10::IValue &expected, const c10::IValue &actual, const std::string &path) {
    if (expected.isTensor() && actual.isTensor())
      return tensors(expected.toTensor(), actual.toTensor(), path);
    // A values file turns named tuples into tuples and types of lists into "any": only the shape of
    // the tree counts.
    if ((expected.isTuple() || expected.isList()) && (actual.isTuple() || actual.isList()))
      return sequences(elementsIn(expected), elementsIn(actual), path);
    if (expected.isGenericDict() && actual.isGenericDict())
      return dicts(expected.toGenericDict(), actual.toGenericDict(), path);
    if (expected.isDouble() && actual.isDouble()) {
      ++result.numbers;
      note(expected.toDouble(), actual.toDouble());
      if (!close(expected.toDouble(), actual.toDouble(), tolerance(at::kDouble)))
        differ(path, fmt::format("{}", expected.toDouble()), fmt::format("{}", actual.toDouble()));
      return;
    }
    if (expected.tagKind() != actual.tagKind())
      return differ(path, describedKind(expected), describedKind(actual));
    if (expected.isObject() || expected.isCapsule() || expected.isTensor() || !(expected == actual))
      differ(path, text(expected), text(actual));
  }

private:
  template <typename T> static std::string text(const T &value) {
    std::ostringstream stream;
    stream << value;
    return stream.str();
  }
  std::string childPath(const std::string &path, const std::string &child) const {
    return path == root_ ? path + " " + child : path + "." + child;
  }

  Tolerance tolerance(at::ScalarType type) const {
    Tolerance defaults = defaultTolerance(type);
    return {rtol_.value_or(defaults.rtol), atol_.value_or(defaults.atol)};
  }

  void differ(const std::string &path, const std::string &expected, const std::string &actual) {
    if (result.equal) {
      result.firstDifference = fmt::format("{}: expected {}, got {}", path, expected, actual);
      result.where = llvm::StringRef(path).drop_front(root_.size()).trim().str();
      result.expected = expected;
      result.actual = actual;
    }
    result.equal = false;
  }

  void note(double expected, double actual) {
    double difference = std::abs(expected - actual);
    if (!std::isfinite(difference))
      return;
    result.maxAbs = std::max(result.maxAbs, difference);
    if (expected != 0)
      result.maxRel = std::max(result.maxRel, difference / std::abs(expected));
  }

  void sequences(const std::vector<c10::IValue> &expected, const std::vector<c10::IValue> &actual,
                 const std::string &path) {
    if (expected.size() != actual.size())
      return differ(path, fmt::format("{} elements", expected.size()),
                    fmt::format("{}", actual.size()));
    for (size_t i = 0; i < expected.size(); ++i)
      trees(expected[i], actual[i], childPath(path, std::to_string(i)));
  }

  void dicts(const c10::impl::GenericDict &expected, const c10::impl::GenericDict &actual,
             const std::string &path) {
    for (const auto &entry : expected) {
      std::string child = childPath(
          path, entry.key().isString() ? pathKey(entry.key().toStringRef()) : text(entry.key()));
      if (!actual.contains(entry.key()))
        differ(child, "a value", "none");
      else
        trees(entry.value(), actual.at(entry.key()), child);
    }
    if (actual.size() > expected.size())
      differ(path, fmt::format("{} keys", expected.size()), fmt::format("{}", actual.size()));
  }

  void tensors(const at::Tensor &expected, const at::Tensor &actual, const std::string &path) {
    if (!expected.defined() || !actual.defined()) {
      if (expected.defined() != actual.defined())
        differ(path, expected.defined() ? "a tensor" : "none",
               actual.defined() ? "a tensor" : "none");
      return;
    }
    if (expected.scalar_type() != actual.scalar_type())
      return differ(path, c10::getDtypeNames(expected.scalar_type()).first,
                    c10::getDtypeNames(actual.scalar_type()).first);
    if (expected.sizes() != actual.sizes())
      return differ(path, "size " + text(expected.sizes()), text(actual.sizes()));
    if (expected.layout() != actual.layout())
      return differ(path, "layout " + text(expected.layout()), text(actual.layout()));
    result.numbers += expected.numel();
    if (haveSameBits(expected, actual)) // the rest takes many times as long
      return;
    at::Tensor left = comparable(expected), right = comparable(actual);
    if (left.scalar_type() == at::kDouble)
      floats(left, right, expected.scalar_type(), path);
    else
      integers(left, right, expected.scalar_type(), path);
  }

  void floats(const at::Tensor &expected, const at::Tensor &actual, at::ScalarType type,
              const std::string &path) {
    const auto *left = expected.const_data_ptr<double>(), *right = actual.const_data_ptr<double>();
    Tolerance allowed = tolerance(type);
    for (int64_t i = 0, n = expected.numel(); i < n; ++i) {
      note(left[i], right[i]);
      if (close(left[i], right[i], allowed))
        continue;
      if (result.equal) // texts only for the first of perhaps millions
        differ(path + indexText(i, expected.sizes()), numberText(left[i], type),
               numberText(right[i], type));
    }
  }

  void integers(const at::Tensor &expected, const at::Tensor &actual, at::ScalarType type,
                const std::string &path) {
    const auto *left = expected.const_data_ptr<int64_t>(),
               *right = actual.const_data_ptr<int64_t>();
    Tolerance allowed = tolerance(type);
    for (int64_t i = 0, n = expected.numel(); i < n; ++i) {
      if (left[i] == right[i])
        continue;
      double a = static_cast<double>(left[i]), b = static_cast<double>(right[i]);
      note(a, b);
      bool exact = allowed.rtol == 0 && allowed.atol == 0;
      if (result.equal && (exact || !close(a, b, allowed)))
        differ(path + indexText(i, expected.sizes()), std::to_string(left[i]),
               std::to_string(right[i]));
    }
  }

  std::optional<double> rtol_, atol_;
  const std::string &root_;
};

} // namespace

Comparison compare(const c10::IValue &expected, const c10::IValue &actual,
                   std::optional<double> rtol, std::optional<double> atol,
                   const std::string &root) {
  Comparer comparer(rtol, atol, root);
  comparer.trees(expected, actual, root);
  return comparer.result;
}

} // namespace pipec

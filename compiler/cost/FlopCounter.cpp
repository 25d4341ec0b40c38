#include "compiler/cost/FlopCounter.h"

#include "ir/costs/Cluster.h"
#include "ir/support/StringSwitch.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>

namespace pipec {

namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local Arithmetic workOfThread;
thread_local int depthInCounted = 0;

int64_t sizeAt(const c10::IValue &value, int64_t dim) {
  const at::Tensor &tensor = value.toTensor();
  return tensor.dim() == 0 ? 1 : tensor.size(dim < 0 ? dim + tensor.dim() : dim);
}

/// (..., m, k) x (k, n): 2 * m * k * n per matrix.
int64_t productFlops(Inputs inputs, size_t left, size_t right) {
  return 2 * inputs[left].toTensor().numel() * sizeAt(inputs[right], -1);
}

/// Scores and their product with the values: 2 * 2 * queries * keys * width.
int64_t attentionFlops(Inputs inputs) {
  return 2 * inputs[0].toTensor().numel() * sizeAt(inputs[1], -2) +
         2 * inputs[0].toTensor().numel() / std::max<int64_t>(1, sizeAt(inputs[0], -1)) *
             sizeAt(inputs[1], -2) * sizeAt(inputs[2], -1);
}

/// One product per weight matrix and time step.
int64_t recurrentFlops(Inputs inputs) {
  const at::Tensor &input = inputs[0].toTensor();
  int64_t steps = input.numel() / std::max<int64_t>(1, sizeAt(inputs[0], -1));
  return 2 * steps * (inputs[1].toTensor().numel() + inputs[2].toTensor().numel());
}

enum class Family {
  None,
  Product01,
  Product12,
  Convolution,
  ConvolutionBackward,
  Attention,
  AttentionBackward,
  Recurrent,
  RecurrentBackward,
  MaxPool,
  Tanh,
  Gelu,
  GeluBackward
};

Family familyOf(llvm::StringRef name) {
  return StringSwitch<Family>(name)
      .Cases({"aten::mm", "aten::bmm", "aten::mv", "aten::dot"}, Family::Product01)
      .Cases({"aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addbmm"}, Family::Product12)
      .Cases({"aten::convolution", "aten::_convolution", "aten::convolution_overrideable"},
             Family::Convolution)
      .Cases({"aten::convolution_backward", "aten::convolution_backward_overrideable"},
             Family::ConvolutionBackward)
      .Case("aten::_scaled_dot_product_flash_attention_for_cpu_backward", Family::AttentionBackward)
      .Case("aten::mkldnn_rnn_layer_backward", Family::RecurrentBackward)
      .Case("aten::gelu_backward", Family::GeluBackward)
      .Cases({"aten::scaled_dot_product_attention",
              "aten::_scaled_dot_product_flash_attention_for_cpu"},
             Family::Attention)
      .Case("aten::mkldnn_rnn_layer", Family::Recurrent)
      .Cases({"aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"}, Family::MaxPool)
      .Cases({"aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices",
              "aten::max_pool3d_with_indices"},
             Family::MaxPool)
      .Cases({"aten::tanh", "aten::tanh_"}, Family::Tanh)
      .Cases({"aten::gelu", "aten::gelu_"}, Family::Gelu)
      .Default(Family::None);
}

struct Count {
  int64_t fixed = 0;
  int64_t perOutputElement = 0; // of the first result
};

/// Inputs may be gone when an operator returns, so the numbers for its count are taken at its
/// start.
struct Context : at::ObserverContext {
  bool counted = false;
  Count flops, coreFlops;
};

bool isTransposed(Inputs inputs) {
  return inputs.size() > 6 && inputs[6].isBool() && inputs[6].toBool();
}

bool areOnes(Inputs inputs, size_t index) {
  if (inputs.size() <= index || !inputs[index].isIntList())
    return false;
  const std::vector<int64_t> values = inputs[index].toIntVector();
  return std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 1; });
}

/// Whether LibTorch gives the convolution to its matrix product, a sample at a time, with one
/// thread: convolutions of single points. The others have their own kernels.
bool isProduct(Inputs inputs) {
  constexpr int64_t kSamplesForKernels = 16, kStride = 3, kDilation = 5, kGroups = 8;
  const at::IntArrayRef weight = inputs[1].toTensor().sizes();
  return inputs[0].toTensor().size(0) < kSamplesForKernels &&
         std::all_of(weight.begin() + 2, weight.end(), [](int64_t size) { return size == 1; }) &&
         areOnes(inputs, kStride) && areOnes(inputs, kDilation) && inputs.size() > kGroups &&
         inputs[kGroups].isInt() && inputs[kGroups].toInt() == 1;
}

/// Each element of the output (of the input, when transposed) meets the weights of one filter.
///
/// On a core: the kernels do twice what the matrix product does, but an element of the output costs
/// as much as 20 multiply-adds of the product beside them, and they rearrange the weights in every
/// call, which reads and writes them once more. The product packs its weights, for every sample.
/// Of 144 convolutions of bench-prediction's models 127 are within 15 % of their times (62 when all
/// count alike).
void startConvolution(Inputs inputs, Context &context) {
  constexpr int64_t kFlopsOfOutput = 40;
  const at::Tensor &weight = inputs[1].toTensor();
  if (weight.dim() < 2 || weight.size(0) == 0)
    return;
  const int64_t filter = weight.numel() / weight.size(0);
  if (isTransposed(inputs)) {
    context.flops.fixed = context.coreFlops.fixed = 2 * filter * inputs[0].toTensor().numel();
    return;
  }
  const auto pass = static_cast<int64_t>(weight.nbytes()) * kCoreFlopsPerByte;
  context.flops.perOutputElement = 2 * filter;
  if (isProduct(inputs))
    context.coreFlops = {(2 * inputs[0].toTensor().size(0) - 1) * pass, 2 * filter};
  else
    context.coreFlops = {2 * pass, filter + kFlopsOfOutput};
}

/// The arguments are the gradient, then the forward's arguments. The last one says which gradients
/// are needed. Each takes as long as the forward, except the bias's, which is a sum.
int64_t convolutionBackwardFlops(Inputs inputs) {
  if (inputs.size() < 11 || !inputs[2].isTensor() || !inputs[10].isBoolList())
    return 0;
  const at::Tensor &weight = inputs[2].toTensor();
  if (weight.dim() < 2 || weight.size(0) == 0)
    return 0;
  const bool transposed = inputs[7].isBool() && inputs[7].toBool();
  const int64_t forward =
      2 * (weight.numel() / weight.size(0)) * inputs[transposed ? 1 : 0].toTensor().numel();
  const c10::List<bool> wanted = inputs[10].toBoolList();
  return forward * (int64_t(wanted[0]) + int64_t(wanted[1]));
}

/// One number stands for all dimensions; the operator's name has their number.
int64_t elementsOfWindow(const char *name, Inputs inputs) {
  const c10::List<int64_t> sizes = inputs[1].toIntList();
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements *= size;
  const llvm::StringRef op = name;
  const int dims = op.contains("1d") ? 1 : op.contains("2d") ? 2 : 3;
  if (sizes.size() == 1)
    for (int d = 1; d < dims; ++d)
      elements *= sizes[0];
  return elements;
}

// Operators that take a CPU longer than their reads and writes: LibTorch's pooling compares element
// by element, 3 ns for each of a window; tanh and gelu take 2 and 0.2 ns for each. In operations of
// the usual core (kCoreFlopsPerSecond), measured with bench-prediction's models.
constexpr int64_t kFlopsOfCompare = 300, kFlopsOfTanh = 200, kFlopsOfGelu = 20;

int64_t productOf(Family family, Inputs inputs) {
  switch (family) {
  case Family::Product01:
    return inputs[1].toTensor().dim() == 1 ? 2 * inputs[0].toTensor().numel()
                                           : productFlops(inputs, 0, 1);
  case Family::Product12:
    return productFlops(inputs, 1, 2);
  case Family::Attention:
    return attentionFlops(inputs);
  case Family::Recurrent:
    return recurrentFlops(inputs);
  case Family::ConvolutionBackward:
    return convolutionBackwardFlops(inputs);
  case Family::AttentionBackward:
    return attentionFlops(inputs.slice(1)) * 5 / 2;
  case Family::RecurrentBackward:
    return 2 * recurrentFlops(inputs);
  default:
    return 0;
  }
}

void start(Family family, const char *name, Inputs inputs, Context &context) {
  switch (family) {
  case Family::Convolution:
    startConvolution(inputs, context);
    return;
  case Family::MaxPool:
    context.flops.perOutputElement = elementsOfWindow(name, inputs);
    context.coreFlops.perOutputElement = kFlopsOfCompare * elementsOfWindow(name, inputs);
    return;
  case Family::Tanh:
    context.flops.perOutputElement = 1;
    context.coreFlops.perOutputElement = kFlopsOfTanh;
    return;
  case Family::Gelu:
    context.flops.perOutputElement = 1;
    context.coreFlops.perOutputElement = kFlopsOfGelu;
    return;
  case Family::GeluBackward: // the error function and an exponential
    context.flops.perOutputElement = 2;
    context.coreFlops.perOutputElement = 2 * kFlopsOfGelu;
    return;
  default:
    context.flops.fixed = context.coreFlops.fixed = productOf(family, inputs);
  }
}

/// An observer of an operator that the interpreter calls gets the whole stack of the interpreter;
/// the operator's own values are the last ones.
template <typename Value> c10::ArrayRef<Value> lastOf(c10::ArrayRef<Value> values, size_t count) {
  return values.slice(values.size() - std::min(count, values.size()));
}

std::unique_ptr<at::ObserverContext> onEnter(const at::RecordFunction &function) {
  auto context = std::make_unique<Context>();
  Family family = familyOf(function.name());
  context->counted = family != Family::None;
  if (context->counted && depthInCounted++ == 0)
    start(family, function.name(), lastOf(function.inputs(), function.num_inputs()), *context);
  return context;
}

void onExit(const at::RecordFunction &function, at::ObserverContext *observed) {
  auto *context = static_cast<Context *>(observed);
  if (!context || !context->counted) // none where the start failed
    return;
  --depthInCounted;
  const auto outputs =
      lastOf(c10::ArrayRef<c10::IValue>(function.outputs()), function.num_outputs());
  const int64_t elements =
      !outputs.empty() && outputs[0].isTensor() ? outputs[0].toTensor().numel() : 0;
  auto total = [&](const Count &count) { return count.fixed + count.perOutputElement * elements; };
  workOfThread.flops += total(context->flops);
  workOfThread.coreFlops += total(context->coreFlops);
}

} // namespace

FlopCounter::FlopCounter() {
  workOfThread = {};
  depthInCounted = 0;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(onEnter, onExit)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() { at::removeCallback(handle_); }

Arithmetic FlopCounter::total() const { return workOfThread; }

} // namespace pipec

#include "compiler/FlopCounter.h"

#include "llvm/ADT/StringSwitch.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace pipec {

namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local int64_t flopsOfThread = 0;
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
         2 * inputs[0].toTensor().numel() / sizeAt(inputs[0], -1) * sizeAt(inputs[1], -2) *
             sizeAt(inputs[2], -1);
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
  Attention,
  Recurrent,
  MaxPool,
  Tanh,
  Gelu
};

Family familyOf(llvm::StringRef name) {
  return llvm::StringSwitch<Family>(name)
      .Cases("aten::mm", "aten::bmm", "aten::mv", "aten::dot", Family::Product01)
      .Cases("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addbmm", Family::Product12)
      .Cases("aten::convolution", "aten::_convolution", "aten::convolution_overrideable",
             Family::Convolution)
      .Cases("aten::scaled_dot_product_attention",
             "aten::_scaled_dot_product_flash_attention_for_cpu", Family::Attention)
      .Case("aten::mkldnn_rnn_layer", Family::Recurrent)
      .Cases("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", Family::MaxPool)
      .Cases("aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices",
             "aten::max_pool3d_with_indices", Family::MaxPool)
      .Cases("aten::tanh", "aten::tanh_", Family::Tanh)
      .Cases("aten::gelu", "aten::gelu_", Family::Gelu)
      .Default(Family::None);
}

/// Inputs may be gone when an operator returns: what its count needs is taken when it starts.
struct Context : at::ObserverContext {
  bool counted = false;
  int64_t flops = 0;
  int64_t perOutputElement = 0; // of the first result
};

bool isTransposed(Inputs inputs) {
  return inputs.size() > 6 && inputs[6].isBool() && inputs[6].toBool();
}

/// Each element of the output (of the input, when transposed) meets the weights of one filter.
void startConvolution(Inputs inputs, Context &context) {
  const at::Tensor &weight = inputs[1].toTensor();
  if (weight.dim() < 2 || weight.size(0) == 0)
    return;
  int64_t filter = weight.numel() / weight.size(0);
  if (isTransposed(inputs))
    context.flops = 2 * filter * inputs[0].toTensor().numel();
  else
    context.perOutputElement = 2 * filter;
}

/// One number stands for all dimensions, which the operator's name has.
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

// What takes a CPU longer than reading and writing says: LibTorch's pooling compares element by
// element, 3 ns for each of a window; tanh and gelu take 2 and 0.2 ns for each. In operations of
// the usual core (kCoreFlopsPerSecond), measured with bench-prediction's models.
constexpr int64_t kFlopsOfCompare = 300, kFlopsOfTanh = 200, kFlopsOfGelu = 20;

void start(Family family, const char *name, Inputs inputs, Context &context) {
  switch (family) {
  case Family::None:
    return;
  case Family::Product01:
    context.flops = inputs[1].toTensor().dim() == 1 ? 2 * inputs[0].toTensor().numel()
                                                    : productFlops(inputs, 0, 1);
    return;
  case Family::Product12:
    context.flops = productFlops(inputs, 1, 2);
    return;
  case Family::Convolution:
    startConvolution(inputs, context);
    return;
  case Family::Attention:
    context.flops = attentionFlops(inputs);
    return;
  case Family::Recurrent:
    context.flops = recurrentFlops(inputs);
    return;
  case Family::MaxPool:
    context.perOutputElement = kFlopsOfCompare * elementsOfWindow(name, inputs);
    return;
  case Family::Tanh:
    context.perOutputElement = kFlopsOfTanh;
    return;
  case Family::Gelu:
    context.perOutputElement = kFlopsOfGelu;
    return;
  }
}

/// An operator that LibTorch's interpreter calls is shown with all of the interpreter's stack: its
/// own values are the last ones.
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
  flopsOfThread += context->flops;
  const auto outputs =
      lastOf(c10::ArrayRef<c10::IValue>(function.outputs()), function.num_outputs());
  if (context->perOutputElement && !outputs.empty() && outputs[0].isTensor())
    flopsOfThread += context->perOutputElement * outputs[0].toTensor().numel();
}

} // namespace

FlopCounter::FlopCounter() {
  flopsOfThread = 0;
  depthInCounted = 0;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(onEnter, onExit)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() { at::removeCallback(handle_); }

int64_t FlopCounter::total() const { return flopsOfThread; }

} // namespace pipec

#include "compiler/cost/Backward.h"

#include "ir/TorchError.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <chrono>
#include <set>

namespace pipec {

namespace {

/// Replaces a tensor whose gradient is needed.
struct Leaf {
  at::Tensor leaf, read; // the operator reads a value derived from the leaf, so it may write into
                         // it
  size_t input;          // that holds it
  size_t holders = 0;    // of `read`, before the operator
};

bool isFloating(const at::Tensor &tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type());
}

class BackwardTimer {
public:
  BackwardTimer(const std::vector<BackwardInput> &inputs, bool counts)
      : inputs_(inputs), counts_(counts) {
    result_.keptOfRead.resize(inputs.size(), 0);
  }

  /// Copies of the given inputs, made from leaves.
  std::vector<c10::IValue> read(bool writes) {
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].kind == BackwardInput::Kind::Fixed) {
        values.push_back(inputs_[i].value);
        continue;
      }
      std::vector<Leaf> &leaves =
          inputs_[i].kind == BackwardInput::Kind::Weight ? weights_ : activations_;
      values.push_back(mapTensors(inputs_[i].value, [&](const at::Tensor &tensor) {
        const bool isFrozen = inputs_[i].kind == BackwardInput::Kind::Weight &&
                              !inputs_[i].value.isTensor() && !tensor.requires_grad();
        if (!isFloating(tensor) || isFrozen) // a list may hold both kinds
          return writes && tensor.defined() ? tensor.clone() : tensor;
        Leaf leaf{tensor.detach().requires_grad_(), {}, i};
        leaf.read = writes ? leaf.leaf.clone() : leaf.leaf.alias();
        leaves.push_back(leaf);
        return leaf.read;
      }));
    }
    for (std::vector<Leaf> *leaves : {&activations_, &weights_})
      for (Leaf &leaf : *leaves)
        leaf.holders = leaf.read.use_count();
    return values;
  }

  /// Call it while the graph behind `made` is alive and the operator itself holds nothing any more.
  void countKept(const std::vector<c10::IValue> &made) {
    std::set<const void *> counted;
    for (const Leaf &leaf : activations_)
      if (counted.insert(leaf.leaf.storage().unsafeGetStorageImpl()).second &&
          leaf.read.use_count() > leaf.holders)
        result_.keptOfRead[leaf.input] += static_cast<int64_t>(leaf.leaf.nbytes());
    for (const Leaf &leaf : weights_)
      if (leaf.read.use_count() > leaf.holders)
        result_.keptOfWeights += static_cast<int64_t>(leaf.leaf.nbytes());
    for (const c10::IValue &value : made) {
      int64_t bytes = 0;
      forEachTensor(value, [&](const at::Tensor &tensor) {
        // Saved results are separate tensors over the same storage.
        if (tensor.defined() && tensor.has_storage() && tensor.storage().use_count() > 1 &&
            counted.insert(tensor.storage().unsafeGetStorageImpl()).second)
          bytes += static_cast<int64_t>(tensor.nbytes());
      });
      result_.keptOfMade.push_back(bytes);
    }
  }

  void walkBack(const std::vector<c10::IValue> &made) {
    for (const c10::IValue &value : made) {
      bool any = false;
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (!isFloating(tensor) || !tensor.requires_grad())
          return;
        any = true;
        const at::Tensor gradient = at::ones_like(tensor);
        const Walk activations = walk(tensor, gradient, activations_);
        result_.inputGradNs += activations.ns;
        result_.inputGradWork += activations.work;
        result_.inputGradBytes = std::max(result_.inputGradBytes, activations.bytes);
        const Walk weights = walk(tensor, gradient, weights_);
        result_.weightGradNs += weights.ns;
        result_.weightGradWork += weights.work;
        result_.weightGradBytes = std::max(result_.weightGradBytes, weights.bytes);
      });
      result_.hasGradient.push_back(any);
    }
  }

  OperatorBackward take() { return std::move(result_); }

private:
  struct Walk {
    int64_t ns = 0;
    Arithmetic work;
    int64_t bytes = 0; // of the gradients
  };

  Walk walk(const at::Tensor &tensor, const at::Tensor &gradient, const std::vector<Leaf> &leaves) {
    Walk walk;
    if (leaves.empty())
      return walk;
    std::vector<at::Tensor> to;
    for (const Leaf &leaf : leaves)
      to.push_back(leaf.leaf);
    // LibTorch's group norm crashes on channels_last where only gradients of its weights are
    // wanted.
    if (tensor.grad_fn() && tensor.grad_fn()->name().find("NativeGroupNorm") != std::string::npos)
      for (const Leaf &leaf : activations_)
        to.push_back(leaf.leaf);
    std::optional<FlopCounter> counter;
    if (counts_)
      counter.emplace();
    const auto start = std::chrono::steady_clock::now();
    tensor._backward(to, gradient, /*keep_graph=*/true, /*create_graph=*/false);
    walk.ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    if (counter)
      walk.work = counter->total();
    for (const Leaf &leaf : leaves) {
      if (leaf.leaf.grad().defined())
        walk.bytes += static_cast<int64_t>(leaf.leaf.nbytes());
      leaf.leaf.mutable_grad().reset();
    }
    for (const at::Tensor &leaf : to)
      leaf.mutable_grad().reset();
    return walk;
  }

  const std::vector<BackwardInput> &inputs_;
  const bool counts_;
  std::vector<Leaf> activations_, weights_;
  OperatorBackward result_;
};

} // namespace

OperatorBackward
timeBackward(const std::vector<BackwardInput> &inputs, bool writes, bool counts,
             llvm::function_ref<std::vector<c10::IValue>(const std::vector<c10::IValue> &)> run) {
  std::optional<OperatorBackward> result;
  llvm::Error error = guardTorchVoid(ExitCode::Other, "running backward", [&] {
    c10::AutoGradMode withGradients(true);
    BackwardTimer timer(inputs, counts);
    const std::vector<c10::IValue> read = timer.read(writes);
    const std::vector<c10::IValue> made = run(read);
    timer.countKept(made);
    timer.walkBack(made);
    result = timer.take();
  });
  llvm::consumeError(std::move(error)); // no backward, no times
  return result.value_or(OperatorBackward());
}

} // namespace pipec

#include "compiler/cost/Backward.h"

#include "ir/TorchError.h"
#include "ir/autograd/SplitWalk.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <set>

namespace pipec {

namespace {

/// Replaces a tensor whose gradient is needed. One that is read as it is has itself as leaf.
struct Leaf {
  at::Tensor leaf, read; // the operator reads a value derived from the leaf, so it may write into
                         // it
  size_t input;          // that holds it
  size_t holders = 0;    // of `read`, before the operator
  size_t sharers = 0;    // of its memory, before the operator
};

/// Memory of a result.
struct Made {
  c10::Storage memory;
  int64_t bytes = 0;
};

bool isFloating(const at::Tensor &tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type());
}

class BackwardTimer {
public:
  BackwardTimer(const std::vector<BackwardInput> &inputs, bool counts)
      : inputs_(inputs), counts_(counts) {}

  /// Copies of the given inputs, made from leaves.
  std::vector<c10::IValue> read(bool writes) {
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].kind == BackwardInput::Kind::Fixed) {
        values.push_back(inputs_[i].value);
        if (inputs_[i].isMade)
          forEachTensor(inputs_[i].value, [&](const at::Tensor &tensor) {
            if (tensor.defined() && tensor.has_storage())
              fixed_.push_back({tensor, tensor, i});
          });
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
    for (Leaf &leaf : weights_)
      leaf.holders = leaf.read.use_count();
    for (std::vector<Leaf> *leaves : {&activations_, &fixed_})
      for (Leaf &leaf : *leaves) {
        leaf.holders = leaf.read.use_count();
        leaf.sharers = leaf.read.storage().use_count();
      }
    return values;
  }

  /// Call it when the operator itself holds nothing any more: of the results, only the graph
  /// remains.
  void takeResults(std::vector<c10::IValue> made) {
    std::set<const void *> known; // memory of the inputs, and of results so far
    for (const BackwardInput &input : inputs_)
      forEachTensor(input.value, [&](const at::Tensor &tensor) {
        if (tensor.defined() && tensor.has_storage())
          known.insert(tensor.storage().unsafeGetStorageImpl());
      });
    for (const Leaf &leaf : activations_)
      known.insert(leaf.read.storage().unsafeGetStorageImpl()); // it may be a copy
    for (const c10::IValue &value : made) {
      bool any = false;
      std::vector<Made> &memory = made_.emplace_back();
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (tensor.defined() && tensor.has_storage() &&
            known.insert(tensor.storage().unsafeGetStorageImpl()).second)
          memory.push_back({tensor.storage(), static_cast<int64_t>(tensor.nbytes())});
        if (!isFloating(tensor) || !tensor.requires_grad())
          return;
        any = true;
        roots_.add(torch::autograd::impl::gradient_edge(tensor), at::ones_like(tensor));
      });
      result_.hasGradient.push_back(any);
    }
  }

  void countKept() {
    countHeld(result_.keptOfRead, result_.keptOfMade);
    for (const Leaf &leaf : weights_)
      if (leaf.read.use_count() > leaf.holders)
        result_.keptOfWeights += static_cast<int64_t>(leaf.leaf.nbytes());
  }

  /// One walk for all results, as a stage's backward comes to them: what several of them were made
  /// from runs once.
  void walkBack() {
    WalkRoots roots = std::move(roots_);
    const Walk activations = edgesOf(activations_), weights = edgesOf(weights_);
    if (!weights.wanted.empty()) { // unless the backward is walked in two parts
      result_.pendingOfRead = result_.keptOfRead;
      result_.pendingOfMade = result_.keptOfMade;
    }
    if (activations.wanted.empty() || weights.wanted.empty()) {
      const Walk &only = weights.wanted.empty() ? activations : weights;
      walkWhole(&only == &weights, only, only.wanted, std::move(roots), /*keepGraph=*/false);
      return;
    }
    SplitWalk split;
    SplitWalk::Search search;
    split.begin(roots.edges, activations.wanted, weights.wanted, search);
    if (split.whyWhole().empty()) {
      GraphWalk toInputs, toWeights;
      toInputs.roots = std::move(roots);
      noteWalk(false, activations, toInputs, [&] { split.walkToInputs(toInputs); });
      countHeld(result_.pendingOfRead, result_.pendingOfMade);
      result_.pendingGradients = split.pendingBytes();
      noteWalk(true, weights, toWeights, [&] { split.walkToWeights(toWeights); });
      return;
    }
    walkWhole(false, activations, activations.wanted, roots, /*keepGraph=*/true);
    torch::autograd::edge_list wanted = weights.wanted;
    // LibTorch's group norm crashes on channels_last where only gradients of its weights are
    // wanted.
    if (llvm::any_of(roots.edges, [](const torch::autograd::Edge &edge) {
          return edge.function->name().find("NativeGroupNorm") != std::string::npos;
        }))
      llvm::append_range(wanted, activations.wanted);
    walkWhole(true, weights, std::move(wanted), std::move(roots), /*keepGraph=*/true);
  }

  OperatorBackward take() { return std::move(result_); }

private:
  /// What the graph holds of the values that the operator read, and of its results. It saves
  /// an input itself or a view of it, as a product of more than two dimensions does, and a result
  /// as a tensor of its own over the same memory.
  void countHeld(std::vector<int64_t> &ofRead, std::vector<int64_t> &ofMade) const {
    ofRead.assign(inputs_.size(), 0);
    ofMade.clear();
    std::set<const void *> counted;
    for (const std::vector<Leaf> *leaves : {&activations_, &fixed_})
      for (const Leaf &leaf : *leaves) {
        const bool isHeld =
            leaf.read.use_count() > leaf.holders || leaf.read.storage().use_count() > leaf.sharers;
        if (counted.insert(leaf.leaf.storage().unsafeGetStorageImpl()).second && isHeld)
          ofRead[leaf.input] += static_cast<int64_t>(leaf.leaf.nbytes());
      }
    for (const std::vector<Made> &value : made_) {
      int64_t bytes = 0;
      for (const Made &each : value)
        bytes += each.memory.use_count() > 1 ? each.bytes : 0;
      ofMade.push_back(bytes);
    }
  }

  /// Where a walk ends, and the bytes of the gradient there.
  struct Walk {
    torch::autograd::edge_list wanted;
    std::vector<int64_t> bytes;
  };

  static Walk edgesOf(const std::vector<Leaf> &leaves) {
    Walk walk;
    for (const Leaf &leaf : leaves) {
      walk.wanted.push_back(torch::autograd::impl::gradient_edge(leaf.leaf));
      walk.bytes.push_back(static_cast<int64_t>(leaf.leaf.nbytes()));
    }
    return walk;
  }

  void walkWhole(bool toWeights, const Walk &ends, torch::autograd::edge_list wanted,
                 WalkRoots roots, bool keepGraph) {
    GraphWalk walk;
    walk.roots = std::move(roots);
    walk.wanted = std::move(wanted);
    noteWalk(toWeights, ends, walk, [&] { walk.run(keepGraph); });
  }

  /// `walk`: what `run` runs; the first gradients that it finds are those at `ends`.
  void noteWalk(bool toWeights, const Walk &ends, const GraphWalk &walk,
                llvm::function_ref<void()> run) {
    std::optional<FlopCounter> counter;
    if (counts_)
      counter.emplace();
    const auto start = std::chrono::steady_clock::now();
    run();
    const int64_t ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    (toWeights ? result_.weightGradNs : result_.inputGradNs) = ns;
    if (counter)
      (toWeights ? result_.weightGradWork : result_.inputGradWork) = counter->total();
    int64_t &bytes = toWeights ? result_.weightGradBytes : result_.inputGradBytes;
    for (size_t i = 0; i < ends.bytes.size(); ++i)
      if (walk.found[i].defined())
        bytes += ends.bytes[i];
  }

  const std::vector<BackwardInput> &inputs_;
  const bool counts_;
  std::vector<Leaf> activations_, weights_, fixed_;
  std::vector<std::vector<Made>> made_; // per result
  WalkRoots roots_;                     // of all results
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
    timer.takeResults(run(read));
    timer.countKept();
    timer.walkBack();
    result = timer.take();
  });
  llvm::consumeError(std::move(error)); // no backward, no times
  return result.value_or(OperatorBackward());
}

} // namespace pipec

// One stage's forward on one micro-batch with gradients, and its backward: whole, or first to the
// inputs and later to the weights.
#pragma once

#include "ir/autograd/GradLeaf.h"
#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

class TapeMemory;
struct TapeLists;

/// A weight or other attribute of a stage.
struct TapedAttribute {
  c10::IValue value;
  size_t uses = 0; // arguments that it fills
};

/// Gradients by input port and by attribute. A tensor that came through several ports has its
/// gradient at the first. A tensor that several attributes hold, as an LSTM's
/// list of weights does beside their names, has its gradient at the first that is that tensor
/// itself, else at the first that holds it; nowhere else.
struct StageGradients {
  std::vector<ValueGradients> inputs, attributes;
};

/// Gets the gradient of an attribute's tensor as soon as it is whole, while the walk goes on. It
/// may take it, and says whether it did. Grad mode is off.
using WeightSink = llvm::function_ref<bool(size_t attribute, at::Tensor &gradient)>;

/// The weights of a stage as its graphs see them: aliases whose gradients stop at leaves. All uses
/// of a weight are one alias, so the engine sums their gradients in the order of the unsplit model.
/// One set serves many tapes, because leaves only mark a place.
class EnteredWeights {
public:
  explicit EnteredWeights(llvm::ArrayRef<TapedAttribute> attributes);

  /// Whether it is what would be made of these: the same trained tensors, and no forward has
  /// written into an alias.
  bool fits(llvm::ArrayRef<TapedAttribute> attributes) const;

private:
  friend class StageTape;
  /// A tensor that is trained, and where its gradients arrive.
  struct Weight {
    size_t attribute = 0, tensor = 0; // where its gradient is reported
    GradLeaf leaf;
  };

  /// Adds one value per use: aliases of trained weights, and the current values of all others.
  void addArguments(llvm::ArrayRef<TapedAttribute> attributes,
                    std::vector<c10::IValue> &values) const;

  bool isReusable_ = true; // a stage may write into a container of weights
  std::vector<Weight> weights_;
  std::vector<size_t> tensorsIn_;                 // per attribute
  std::vector<at::Tensor> trained_;               // per attribute, if it is one tensor
  std::vector<std::vector<c10::IValue>> entered_; // per attribute and use; none: not trained
  std::vector<std::pair<at::Tensor, torch::autograd::Edge>> aliases_;
};

/// The tape of a stage and a micro-batch. One thread at a time; any thread, also another one for
/// the backward than for the forward. It keeps what the backward needs until that is done.
///
///        inputs --enter--> [ stage ] --> outputs (detached, to be sent)
///          ^                  ^  |
///   backward(): gradients     |  roots: gradients of the outputs, and what later stages
///   of inputs and weights     weights   found for the same inputs
class StageTape {
public:
  using Run = llvm::function_ref<llvm::Expected<std::vector<c10::IValue>>(
      std::vector<c10::IValue> inputs, llvm::ArrayRef<c10::IValue> uses)>;

  /// `run` gets one value per input port and one per weight use, and gives one per output port.
  /// Grad mode must be on; the graph optimiser off. Errors: those of `run`.
  static llvm::Expected<StageTape> record(std::vector<c10::IValue> inputs,
                                          llvm::ArrayRef<TapedAttribute> attributes, Run run);
  /// The same with weights that fit `attributes`. `memory`: that of the stage's tapes; null: its
  /// own.
  static llvm::Expected<StageTape> record(std::vector<c10::IValue> inputs,
                                          llvm::ArrayRef<TapedAttribute> attributes,
                                          std::shared_ptr<const EnteredWeights> weights, Run run,
                                          std::shared_ptr<TapeMemory> memory = nullptr);

  /// Outside any graph; a tensor for which gradients are wanted says so by requires_grad.
  const std::vector<c10::IValue> &outputs() const { return outputs_; }
  /// The same, which the tape then no longer holds.
  std::vector<c10::IValue> takeOutputs() { return std::exchange(outputs_, {}); }

  /// B. `ofOutputs`: per output port, empty where nothing comes back; `later`: per input port, the
  /// sum of what stages behind this one found for the same value, which then is the first summand,
  /// as in the unsplit model. LibTorch adds in place to a gradient that has no other
  /// holder, as it does there.
  /// Used once. The tensors of `ofOutputs` are taken, its list is not; the gradients of the inputs
  /// are in the list of `later`. What `sink` (null: none) takes of the attributes is undefined in
  /// the result. Errors: Usage with LibTorch's message.
  llvm::Expected<StageGradients> backward(std::vector<ValueGradients> &&ofOutputs,
                                          std::vector<ValueGradients> &&later,
                                          WeightSink sink = nullptr);

  /// Why the backward cannot be split into two parts; empty: it can.
  const std::string &whyWhole() const;

  /// I: gradients of the inputs only. Memory that only I needs is free afterwards. Needs
  /// no whyWhole(). Arguments and errors: as backward.
  llvm::Expected<StageGradients> inputGradients(std::vector<ValueGradients> &&ofOutputs,
                                                std::vector<ValueGradients> &&later);
  /// W, after I: gradients of the attributes. `sink` and errors: as backward.
  llvm::Expected<std::vector<ValueGradients>> weightGradients(WeightSink sink = nullptr);

private:
  struct GiveBack {
    std::shared_ptr<TapeMemory> memory;
    void operator()(TapeLists *lists) const;
  };

  StageTape(std::shared_ptr<const EnteredWeights> weights, std::shared_ptr<TapeMemory> memory);
  TapeMemory &memory() const { return *lists_.get_deleter().memory; }

  void addRoots(llvm::MutableArrayRef<ValueGradients> ofOutputs,
                llvm::MutableArrayRef<ValueGradients> later) const;
  void addInputEdges(std::vector<torch::autograd::Edge> &edges) const;
  void addWeightEdges(std::vector<torch::autograd::Edge> &edges) const;
  void forgetOutputs();
  /// Whether `sink`, which may be null, took the gradient of a trained weight.
  bool give(size_t weight, at::Tensor &gradient, WeightSink sink) const;
  std::vector<ValueGradients> byPort(llvm::MutableArrayRef<at::Tensor> found,
                                     std::vector<ValueGradients> &&list) const;
  std::vector<ValueGradients> byAttribute(llvm::MutableArrayRef<at::Tensor> found) const;

  std::shared_ptr<const EnteredWeights> weights_;
  std::unique_ptr<TapeLists, GiveBack> lists_;
  std::vector<c10::IValue> outputs_;
};

} // namespace pipec

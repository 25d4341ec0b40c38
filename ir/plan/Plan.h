// The plan: all that a runtime needs besides weights. Plain data without LibTorch; plan.json is its
// text form.
#pragma once

#include "ir/plan/Obligation.h"
#include "ir/support/Failure.h"
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// One size or stride as a function of the micro-batch size B: perBatch * B + constant, or unknown
/// until run time. Text: "3", "B", "2*B", "2*B+1", "?".
struct Dim {
  int64_t perBatch = 0;
  int64_t constant = 0;
  bool dynamic = false;

  int64_t at(int64_t batch) const { return perBatch * batch + constant; }
  bool operator==(const Dim &) const = default;
};

/// The tensor that passes through a port. `known` is false if the compile had no
/// example inputs.
struct TensorSpec {
  bool known = false;
  std::string dtype; // PyTorch's names: "float32", "int64", "bool", ...
  std::vector<Dim> shape;
  std::vector<Dim> strides;
  bool requiresGrad = false;
  int64_t bytes = 0; // for one micro-batch at the example size

  bool operator==(const TensorSpec &) const = default;
};

/// How the values of one output leaf, one per micro-batch, become one value.
///   concat  tensors concatenated along dimension `dim`
///   join    lists joined: the values themselves (`dim` 0), or the lists `dim` levels inside equal
///           containers
///   same    one value, which every micro-batch must return
///   mean    the average, weighted by samples
///   sum     the sum
///   list    a list with a value per micro-batch
struct MergeRule {
  enum class Kind { Concat, Same, List, Mean, Sum, Join };
  Kind kind = Kind::List;
  int64_t dim = 0; // Concat and Join only

  bool operator==(const MergeRule &) const = default;
};

/// The batch dimension of a part of an argument that is a tree.
struct PartDim {
  std::string path;           // below the argument, written as those of results: "mask", "0.x"
  std::optional<int64_t> dim; // absent: every micro-batch gets the whole part

  bool operator==(const PartDim &) const = default;
};

/// An argument of the model's method. Its value may be a tree (tuple, list, dict); all tensors in
/// it have the same batch dimension, except those of `parts`.
struct InputSpec {
  std::string name;
  std::string type; // as TorchScript writes it: "Tensor", "List[Tensor]", "Optional[Tensor]"
  std::optional<int64_t> batchDim; // absent: every micro-batch gets the whole value
  std::vector<PartDim> parts;      // by path; the longest path that fits counts. Since 1.4
  /// None, bool, int, str, a float as floatDefault() of DefaultValue.h writes it (never a JSON
  /// double), or a list or tupleDefault() of these. Absent: the argument is required.
  std::optional<llvm::json::Value> defaultValue;
  bool written =
      false;         // the model writes into it: a runtime that repeats a step must hand out copies
  TensorSpec tensor; // when the argument is one tensor
  bool givenWhole = false; // by the user, with --batch-dim NAME=none. Since 1.5

  bool operator==(const InputSpec &) const = default;
};

/// The tree of the model's result. Leaves are numbered depth first.
struct OutputTree {
  enum class Kind { Leaf, Tuple, List, Dict };
  Kind kind = Kind::Leaf;
  std::vector<OutputTree> children;
  std::vector<std::string> keys; // Dict: one per child; NamedTuple: its fields (none before 1.1)
  std::string typeName;          // NamedTuple: its name, else empty
  size_t leaf = 0;               // Leaf

  bool operator==(const OutputTree &) const = default;
};

struct OutputLeaf {
  std::string type; // as TorchScript writes it
  MergeRule merge;
  TensorSpec tensor;

  bool operator==(const OutputLeaf &) const = default;
};

struct Signature {
  std::string method = "forward";
  std::vector<InputSpec> inputs;
  OutputTree outputs;
  std::vector<OutputLeaf> leaves;
  bool batchSymbolic = true; // false: the model accepts only micro-batches of `batchSize` samples
  int64_t batchSize = 0;     // of the example inputs; 0: compiled without

  bool operator==(const Signature &) const = default;
};

/// The source of a stage's input.
struct StageInput {
  enum class Kind { UserInput, Channel };
  std::string name;
  std::string type;
  Kind kind = Kind::Channel;
  size_t index = 0; // of an input of the signature, or of a channel

  bool operator==(const StageInput &) const = default;
};

/// The uses of a stage's output: any number of channels, any number of output leaves, or the new
/// value of an attribute.
struct StageOutput {
  std::string name;
  std::string type;
  std::vector<size_t> channels;
  std::vector<size_t> leaves;
  std::optional<size_t>
      state; // index into the stage's attributes: written back after the micro-batch

  bool operator==(const StageOutput &) const = default;
};

enum class AttributeKind { Parameter, Buffer, Constant, Value, Object };

/// A weight or other attribute that a stage holds or receives.
struct StageAttribute {
  std::string name;                    // original path, as "encoder.layers.0.weight"
  std::vector<std::string> otherNames; // further registered names of the same tensor
  AttributeKind kind = AttributeKind::Parameter;
  size_t uses = 0; // consecutive arguments of pipec_forward that this attribute fills
  bool requiresGrad = false;
  bool written = false;
  int64_t bytes = 0;
  std::optional<size_t>
      channel; // transmitted: the weight channel it arrives on; the stage file does not hold it

  std::vector<std::string> allNames() const {
    std::vector<std::string> names{name};
    names.insert(names.end(), otherNames.begin(), otherNames.end());
    return names;
  }
  bool operator==(const StageAttribute &) const = default;
};

/// Effects of a stage besides its outputs.
struct StageEffects {
  std::vector<int64_t> randomOps;       // source ordinals of its random operators
  std::vector<std::string> stateWrites; // attributes it writes
  bool prints = false;
  bool raises = false;

  bool operator==(const StageEffects &) const = default;
};

/// A stage. Its file has `forward(inputs..., weight ports...)` returning outputs and owned weight
/// ports, and `pipec_forward(inputs..., one argument per weight use)` returning outputs only.
struct StagePlan {
  std::string file;
  std::string firstModule, lastModule;
  int64_t nodes = 0;
  std::vector<StageInput> inputs;
  std::vector<StageOutput> outputs;
  std::vector<StageAttribute> attributes;
  std::vector<size_t> weightChannelsOut; // in order of the extra results of `forward`
  StageEffects effects;
  int64_t parameterBytes = 0;
  int64_t costFlops = 0; // the estimate that the automatic cut used; 0: none
  size_t rank = 0;

  bool operator==(const StagePlan &) const = default;
};

struct PortRef {
  size_t stage = 0;
  size_t port = 0;
  bool operator==(const PortRef &) const = default;
};

/// The edge from one output port to the input ports that read it. For weight channels, `from.port`
/// is an index into the owner's attributes, and `to[].port` one into the receiver's attributes.
struct Channel {
  enum class Kind { Activation, Weight };
  std::string name;
  Kind kind = Kind::Activation;
  PortRef from;
  std::vector<PortRef> to; // ascending by stage; gradients are summed latest first
  std::string type;        // as TorchScript writes it
  TensorSpec tensor;       // of a weight only since 1.4
  bool skip = false;       // some consumer is not the next stage

  bool operator==(const Channel &) const = default;
};

/// Attributes that are one tensor in the source and that several stages use.
struct Tie {
  enum class Mode { Transmit, Replicate };
  std::vector<std::string> names;
  std::vector<size_t> stages; // ascending
  Mode mode = Mode::Replicate;
  size_t owner = 0;

  bool operator==(const Tie &) const = default;
};

enum class Mode { Infer, Train };

/// How the source became the graph that was cut, beside the facts among the obligations. A later
/// comparison of the stages with the source repeats it without running the source. Since 1.1.
struct Normalisation {
  std::optional<bool> training;      // the value of all training flags; absent: as saved
  std::vector<std::string> keepEval; // modules whose flags were folded to false
  /// The decisions that only the types of the example run made, in the form of docs/artifact.md. In
  /// format 1.1 numbers, which can no longer be read.
  std::vector<std::string> typeDecisions;

  bool operator==(const Normalisation &) const = default;
};

/// A tensor that is trained.
struct TrainedParameter {
  std::string name; // the model's first
  std::vector<std::string> otherNames;
  std::string dtype;
  std::vector<int64_t> shape, strides;
  /// The stages that read it, each once, with the number of its first attribute that is the tensor.
  /// Their gradients are added in this order: the last stage's first, as autograd comes to it
  /// first.
  std::vector<PortRef> uses;

  std::vector<std::string> allNames() const {
    std::vector<std::string> names{name};
    names.insert(names.end(), otherNames.begin(), otherNames.end());
    return names;
  }
  bool operator==(const TrainedParameter &) const = default;
};

/// The expected cost of one micro-batch in a stage: nanoseconds and bytes. F keeps `kept`, and
/// I frees a part of it and leaves gradients for W: if these are more, it frees less than nothing.
struct ExpectedCosts {
  int64_t forward = 0, inputGrad = 0, weightGrad = 0;
  int64_t kept = 0, freedByInputGrad = 0; // the latter is negative since 1.6
  int64_t optimizer = 0;                  // once per step; 0: none or not known. Since 1.6

  bool operator==(const ExpectedCosts &) const = default;
};

/// The data that a training needs besides the stages. Since 1.2.
struct TrainingPlan {
  size_t loss = 0; // output leaf
  /// The output leaf that says over how many elements the loss is a sum: the loss of a step is the
  /// sum of its sums divided by the sum of its counts. Absent: the loss is a number of its own.
  /// Needs the feature "counted-loss".
  std::optional<size_t> count;
  std::vector<TrainedParameter> parameters; // in the model's order
  /// Per stage: why its backward is not split into I and W; empty: it can be, as far as the example
  /// runs show.
  std::vector<std::string> whyWhole;
  std::vector<size_t> recompute; // stages whose forward runs again before their backward, ascending
  bool recomputeExceptLast = false; // not for the last micro-batch of a step. Since 1.3
  std::vector<ExpectedCosts> costs; // per stage, as planned; empty: not known. Since 1.3
  int64_t samples = 0; // of the micro-batch that `costs` are of; 0: not known. Since 1.6

  /// The use that counts in the norm of all gradients: the first stage that holds the tensor.
  PortRef owner(size_t parameter, const std::vector<StagePlan> &stages) const;
  bool operator==(const TrainingPlan &) const = default;
};

struct Plan {
  static constexpr int64_t kMajor = 1;
  static constexpr int64_t kMinor = 6;

  int64_t major = kMajor, minor = kMinor;
  std::vector<std::string> requiredFeatures;
  std::string toolVersion, torchVersion;
  std::string sourceDigest; // "sha256:<hex>" over canonical graph text and weight bytes
  Mode mode = Mode::Infer;
  bool chain = false; // each stage feeds only the next: PyTorch's own PipelineStage can run it
  Signature signature;
  std::vector<StagePlan> stages;
  std::vector<Channel> channels;
  std::vector<Tie> ties;
  std::string scheduleName = "forward-only";
  int64_t microBatches = 0; // default of the artifact; >= 1
  size_t ranks = 0;
  std::vector<Obligation> obligations; // the assumptions of the passes' rewrites
  Normalisation normalisation;
  std::optional<TrainingPlan> training; // of Mode::Train

  bool operator==(const Plan &) const = default;
};

} // namespace pipec

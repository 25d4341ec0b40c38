// The plan: everything a runtime needs besides weights. Plain data without LibTorch; plan.json is
// its text form.
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
std::string toString(const Dim &dim);
llvm::Expected<Dim> parseDim(llvm::StringRef text);

/// What is known of the tensor that travels through a port. `known` is false when the compile had
/// no example inputs.
struct TensorSpec {
  bool known = false;
  std::string dtype; // PyTorch's names: "float32", "int64", "bool", ...
  std::vector<Dim> shape;
  std::vector<Dim> strides;
  bool requiresGrad = false;
  int64_t bytes = 0; // of one micro-batch at the example size

  bool operator==(const TensorSpec &) const = default;
};

/// The one dimension that is a multiple of the batch, no other following it; nothing when there is
/// none.
std::optional<int64_t> growingDim(const TensorSpec &spec);

/// How the values of one output leaf over the micro-batches become one value.
///   concat  tensors joined along dimension `dim`
///   join    lists one behind the other: the values themselves (`dim` 0), or the lists `dim` levels
///           inside containers that are alike
///   same    one value, which every micro-batch must give
///   mean    the average, weighed by samples
///   sum     the sum
///   list    a list with a value per micro-batch
struct MergeRule {
  enum class Kind { Concat, Same, List, Mean, Sum, Join };
  Kind kind = Kind::List;
  int64_t dim = 0; // Concat and Join only

  bool operator==(const MergeRule &) const = default;
};

/// An argument of the model's method. Its value may be a whole tree (tuple, list, dict); one batch
/// dimension serves all tensors in it.
struct InputSpec {
  std::string name;
  std::string type; // as TorchScript writes it: "Tensor", "List[Tensor]", "Optional[Tensor]"
  std::optional<int64_t> batchDim; // absent: given whole to every micro-batch
  /// None, bool, int, str, a float as floatDefault() of DefaultValue.h writes it (never a JSON
  /// double), or a list or tupleDefault() of these. Absent: the argument must be given.
  std::optional<llvm::json::Value> defaultValue;
  bool written =
      false;         // the model writes into it: a runtime that repeats a step must hand out copies
  TensorSpec tensor; // when the argument is one tensor

  bool operator==(const InputSpec &) const = default;
};

/// The tree of the model's result. Leaves are numbered in order of a depth-first walk.
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
  bool batchSymbolic = true; // false: only micro-batches of `batchSize` samples are accepted
  int64_t batchSize = 0;     // of the example inputs; 0: compiled without

  bool operator==(const Signature &) const = default;
};

/// Where a stage's input comes from.
struct StageInput {
  enum class Kind { UserInput, Channel };
  std::string name;
  std::string type;
  Kind kind = Kind::Channel;
  size_t index = 0; // of the signature's input or of the channel

  bool operator==(const StageInput &) const = default;
};

/// What a stage's output is for: any number of channels, any number of output leaves, or the new
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
llvm::StringRef toString(AttributeKind kind);
llvm::Expected<AttributeKind> parseAttributeKind(llvm::StringRef text);

/// A weight or other attribute that a stage holds or is sent.
struct StageAttribute {
  std::string name;                    // original path, as "encoder.layers.0.weight"
  std::vector<std::string> otherNames; // further names of the same tensor, registered beside it
  AttributeKind kind = AttributeKind::Parameter;
  size_t uses = 0; // arguments of pipec_forward that this attribute fills, one after the other
  bool requiresGrad = false;
  bool written = false;
  int64_t bytes = 0;
  std::optional<size_t>
      channel; // transmitted: the weight channel it arrives on; the stage file does not hold it

  bool operator==(const StageAttribute &) const = default;
};

/// What a stage does besides computing its outputs.
struct StageEffects {
  std::vector<int64_t> randomOps;       // ordinals, in the source, of its random operators
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
  int64_t costFlops = 0; // estimate that the automatic cut used; 0: none
  size_t rank = 0;

  bool operator==(const StagePlan &) const = default;
};

struct PortRef {
  size_t stage = 0;
  size_t port = 0;
  bool operator==(const PortRef &) const = default;
};

/// The edge from one output port to the input ports that read it.
/// Weight channels: `from.port` indexes the owner's attributes, `to[].port` the receiver's
/// attributes.
struct Channel {
  enum class Kind { Activation, Weight };
  std::string name;
  Kind kind = Kind::Activation;
  PortRef from;
  std::vector<PortRef> to; // ascending by stage; gradients are summed latest first
  std::string type;        // as TorchScript writes it
  TensorSpec tensor;
  bool skip = false; // some consumer is not the next stage

  bool operator==(const Channel &) const = default;
};

/// Attributes that are one tensor in the source and are used by several stages.
struct Tie {
  enum class Mode { Transmit, Replicate };
  std::vector<std::string> names;
  std::vector<size_t> stages; // ascending
  Mode mode = Mode::Replicate;
  size_t owner = 0;

  bool operator==(const Tie &) const = default;
};

enum class Mode { Infer, Train };

/// How the source became the graph that was cut, beside the facts among the obligations: whoever
/// compares the stages with the source later does the same again, without running it. Since 1.1.
struct Normalisation {
  std::string training = "saved";    // what training flags were folded to: or "true", "false"
  std::vector<std::string> keepEval; // modules whose flags were folded to false
  /// In-place writes judged by the strides that the example run showed, otherwise than without it:
  /// as printForms of ir/TypeAnswers.h writes them.
  std::vector<std::string> forms;

  bool operator==(const Normalisation &) const = default;
};

struct Plan {
  static constexpr int64_t kMajor = 1;
  static constexpr int64_t kMinor = 1;

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
  std::vector<Obligation> obligations; // what the rewrites of the passes rest on
  Normalisation normalisation;

  bool operator==(const Plan &) const = default;
};

/// Keys sorted, two-space indent, short values on one line, a final newline: the bytes of
/// plan.json. Needs a plan that verify() accepts.
std::string toJson(const Plan &plan);

/// Errors: BadArtifact with the JSON path of what is wrong (unknown key at the same minor, missing
/// key, wrong type, number out of range) or what verify() says; Version for another major or an
/// unknown required feature, naming both versions. Warnings (unknown keys of a newer minor) are
/// appended to `warnings`.
llvm::Expected<Plan> planFromJson(llvm::StringRef text, std::vector<std::string> &warnings);

/// Every index in range, every channel with one producer and matching consumers, forward order
/// between stages, leaves all produced once, ranks covering the stages. Errors: BadArtifact naming
/// stage and port.
llvm::Error verify(const Plan &plan);

} // namespace pipec

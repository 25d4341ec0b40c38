// Text of the plan's small types: dims and enums.
#include "ir/plan/PlanNames.h"

#include "ir/plan/MergeBySizes.h"
#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

std::string toString(const Dim &dim) {
  if (dim.dynamic)
    return "?";
  if (dim.perBatch == 0)
    return std::to_string(dim.constant);
  std::string text = dim.perBatch == 1    ? "B"
                     : dim.perBatch == -1 ? "-B"
                                          : fmt::format("{}*B", dim.perBatch);
  return dim.constant == 0 ? text : text + fmt::format("{:+}", dim.constant);
}

llvm::Expected<Dim> parseDim(llvm::StringRef text) {
  Dim dim;
  size_t b = text.find('B');
  llvm::StringRef factor = text.take_front(b == llvm::StringRef::npos ? 0 : b);
  llvm::StringRef rest = b == llvm::StringRef::npos ? text : text.drop_front(b + 1);
  bool ok = true;
  if (text == "?")
    dim.dynamic = true;
  else {
    if (b != llvm::StringRef::npos) {
      dim.perBatch = factor == "-" ? -1 : 1;
      if (factor.consume_back("*"))
        ok = !factor.getAsInteger(10, dim.perBatch);
      rest.consume_front("+");
    }
    if (b == llvm::StringRef::npos || !rest.empty())
      ok = ok && !rest.getAsInteger(10, dim.constant);
  }
  // Only the canonical form is accepted: one text for one value.
  if (ok && toString(dim) == text)
    return dim;
  return failf(ExitCode::BadArtifact, "size \"{}\": expected a form like 3, B, 2*B, 2*B+1 or ?",
               text.str());
}

namespace {

template <typename E> using Names = std::initializer_list<std::pair<E, const char *>>;

template <typename E> llvm::StringRef nameOf(const Names<E> &names, E value) {
  for (const auto &[candidate, name] : names)
    if (candidate == value)
      return name;
  llvm_unreachable("every enumerator has a name");
}

template <typename E>
llvm::Expected<E> valueOf(const Names<E> &names, const char *what, llvm::StringRef text) {
  std::vector<std::string> all;
  for (const auto &[value, name] : names) {
    if (text == name)
      return value;
    all.push_back(name);
  }
  return failf(ExitCode::BadArtifact, "expected {} ({}), got \"{}\"", what, llvm::join(all, ", "),
               text.str());
}

const Names<AttributeKind> kAttributeKinds = {{AttributeKind::Parameter, "parameter"},
                                              {AttributeKind::Buffer, "buffer"},
                                              {AttributeKind::Constant, "constant"},
                                              {AttributeKind::Value, "value"},
                                              {AttributeKind::Object, "object"}};
const Names<MergeRule::Kind> kMergeKinds = {
    {MergeRule::Kind::Concat, "concat"}, {MergeRule::Kind::Same, "same"},
    {MergeRule::Kind::List, "list"},     {MergeRule::Kind::Mean, "mean"},
    {MergeRule::Kind::Sum, "sum"},       {MergeRule::Kind::Join, "join"}};
const Names<OutputTree::Kind> kTreeKinds = {{OutputTree::Kind::Leaf, "leaf"},
                                            {OutputTree::Kind::Tuple, "tuple"},
                                            {OutputTree::Kind::List, "list"},
                                            {OutputTree::Kind::Dict, "dict"}};
const Names<StageInput::Kind> kInputKinds = {{StageInput::Kind::UserInput, "input"},
                                             {StageInput::Kind::Channel, "channel"}};
const Names<Channel::Kind> kChannelKinds = {{Channel::Kind::Activation, "activation"},
                                            {Channel::Kind::Weight, "weight"}};
const Names<Tie::Mode> kTieModes = {{Tie::Mode::Transmit, "transmit"},
                                    {Tie::Mode::Replicate, "replicate"}};
const Names<Mode> kModes = {{Mode::Infer, "infer"}, {Mode::Train, "train"}};

} // namespace

llvm::StringRef toString(AttributeKind kind) { return nameOf(kAttributeKinds, kind); }
llvm::StringRef toString(MergeRule::Kind kind) { return nameOf(kMergeKinds, kind); }
llvm::StringRef toString(OutputTree::Kind kind) { return nameOf(kTreeKinds, kind); }
llvm::StringRef toString(StageInput::Kind kind) { return nameOf(kInputKinds, kind); }
llvm::StringRef toString(Channel::Kind kind) { return nameOf(kChannelKinds, kind); }
llvm::StringRef toString(Tie::Mode mode) { return nameOf(kTieModes, mode); }
llvm::StringRef toString(Mode mode) { return nameOf(kModes, mode); }

llvm::ArrayRef<llvm::StringRef> scheduleNames() {
  static const llvm::StringRef kNames[] = {"forward-only", "table"};
  return kNames;
}

llvm::Expected<AttributeKind> parseAttributeKind(llvm::StringRef text) {
  return valueOf(kAttributeKinds, "a kind of attribute", text);
}
std::string toString(const MergeRule &rule) {
  const bool numbered =
      rule.kind == MergeRule::Kind::Concat || (rule.kind == MergeRule::Kind::Join && rule.dim != 0);
  return numbered ? fmt::format("{}:{}", toString(rule.kind).str(), rule.dim)
                  : toString(rule.kind).str();
}

std::optional<MergeRule> parseMergeRule(llvm::StringRef text) {
  auto [name, number] = text.split(':');
  llvm::Expected<MergeRule::Kind> kind = parseMergeKind(name);
  if (!kind) {
    llvm::consumeError(kind.takeError());
    return std::nullopt;
  }
  MergeRule rule{*kind, 0};
  const bool takesNumber = *kind == MergeRule::Kind::Concat || *kind == MergeRule::Kind::Join;
  const bool hasNumber = text.contains(':');
  if (hasNumber && (!takesNumber || number.getAsInteger(10, rule.dim) || rule.dim < 0))
    return std::nullopt;
  if (!hasNumber && *kind == MergeRule::Kind::Concat)
    return std::nullopt;
  return rule;
}

llvm::Expected<MergeRule::Kind> parseMergeKind(llvm::StringRef text) {
  return valueOf(kMergeKinds, "a merge rule", text);
}
llvm::Expected<Channel::Kind> parseChannelKind(llvm::StringRef text) {
  return valueOf(kChannelKinds, "a kind of channel", text);
}
llvm::Expected<Tie::Mode> parseTieMode(llvm::StringRef text) {
  return valueOf(kTieModes, "a tie mode", text);
}
llvm::Expected<Mode> parseMode(llvm::StringRef text) { return valueOf(kModes, "a mode", text); }

static bool isAnyDynamic(const TensorSpec &spec) {
  return llvm::any_of(spec.shape, [](const Dim &dim) { return dim.dynamic; });
}

bool isCut(const InputSpec &input) {
  return input.batchDim ||
         llvm::any_of(input.parts, [](const PartDim &part) { return part.dim.has_value(); });
}

bool isCut(const Signature &signature) {
  return llvm::any_of(signature.inputs, [](const InputSpec &input) { return isCut(input); });
}

std::string batchDimText(const InputSpec &input) {
  auto text = [](std::optional<int64_t> dim) { return dim ? std::to_string(*dim) : "none"; };
  std::string parts;
  for (const PartDim &part : input.parts)
    parts += (parts.empty() ? "" : ", ") + part.path + "=" + text(part.dim);
  if (parts.empty() || input.batchDim)
    parts = text(input.batchDim) + (parts.empty() ? "" : ", " + parts);
  return parts;
}

bool hasVaryingSizes(const Signature &signature) {
  return signature.batchSymbolic && llvm::any_of(signature.inputs, [](const InputSpec &input) {
           return isAnyDynamic(input.tensor);
         });
}

static bool hasParts(const Signature &signature) {
  return llvm::any_of(signature.inputs,
                      [](const InputSpec &input) { return !input.parts.empty(); });
}

static bool describesWeights(const Plan &plan) {
  return llvm::any_of(plan.channels, [](const Channel &channel) {
    return channel.kind == Channel::Kind::Weight && channel.tensor.known;
  });
}

int64_t parameterBytes(const Plan &plan) {
  int64_t bytes = 0;
  for (const StagePlan &stage : plan.stages)
    bytes += stage.parameterBytes;
  return bytes;
}

/// What W and the update need, and the samples that costs are of.
static bool hasWholeCosts(const Plan &plan) {
  return plan.training && (plan.training->samples > 0 ||
                           llvm::any_of(plan.training->costs, [](const ExpectedCosts &costs) {
                             return costs.freedByInputGrad < 0 || costs.optimizer > 0;
                           }));
}

int64_t minorOf(const Plan &plan) {
  if (hasWholeCosts(plan))
    return 6;
  if (llvm::any_of(plan.signature.inputs, [](const InputSpec &input) { return input.givenWhole; }))
    return 5;
  return hasParts(plan.signature) || describesWeights(plan) ? 4 : 3;
}

std::vector<std::string> featuresOf(const Plan &plan) {
  const Signature &signature = plan.signature;
  const bool needed =
      hasVaryingSizes(signature) && llvm::any_of(signature.leaves, [](const OutputLeaf &leaf) {
        return isAnyDynamic(leaf.tensor);
      });
  const bool moved = llvm::any_of(plan.obligations, [](const Obligation &obligation) {
    return obligation.kind == Obligation::Kind::Reorder;
  });
  const bool absent = llvm::any_of(plan.obligations,
                                   [](const Obligation &fact) { return fact.property == "value"; });
  std::vector<std::string> features;
  if (absent)
    features.push_back("absent-arguments");
  if (plan.training && plan.training->count)
    features.push_back("counted-loss");
  if (describesWeights(plan))
    features.push_back("described-weights");
  if (llvm::any_of(signature.leaves, [&](const OutputLeaf &leaf) {
        return !mergeAgainstSizes(signature, leaf).empty();
      }))
    features.push_back(kMergeRulesFeature.str());
  if (moved)
    features.push_back("moved-operators");
  if (hasParts(signature))
    features.push_back("parts-of-arguments");
  if (plan.scheduleName == "table")
    features.push_back("schedule-table");
  if (plan.training)
    features.push_back("training");
  if (needed)
    features.push_back("varying-sizes");
  return features;
}

std::optional<int64_t> bytesOfDtype(llvm::StringRef dtype) {
  int64_t bytes =
      StringSwitch<int64_t>(dtype)
          .Cases({"bool", "int8", "uint8", "qint8", "quint8"}, 1)
          .Cases({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}, 1)
          .Cases({"float8_e8m0fnu", "float4_e2m1fn_x2", "quint4x2", "quint2x4"}, 1)
          .Cases({"bits1x8", "bits2x4", "bits4x2", "bits8"}, 1)
          .Cases({"int1", "int2", "int3", "int4", "int5", "int6", "int7"}, 1)
          .Cases({"uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7"}, 1)
          .Cases({"float16", "bfloat16", "int16", "uint16", "bits16"}, 2)
          .Cases({"float32", "int32", "uint32", "qint32", "complex32"}, 4)
          .Cases({"float64", "int64", "uint64", "complex64"}, 8)
          .Case("complex128", 16)
          .Default(0);
  return bytes > 0 ? std::optional<int64_t>(bytes) : std::nullopt;
}

bool isDifferentiable(llvm::StringRef dtype) {
  return dtype.contains("float") || startsWith(dtype, "complex");
}

bool holdsNoTensor(llvm::StringRef type) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  std::string spaced = type.str();
  for (char &c : spaced)
    if (!llvm::isAlnum(c) && c != '_' && c != '.')
      c = ' ';
  llvm::SplitString(spaced, words);
  static const llvm::StringRef kPlain[] = {"int",  "float",    "bool", "str",   "complex", "number",
                                           "List", "Optional", "Dict", "Tuple", "NoneType"};
  return !words.empty() &&
         llvm::all_of(words, [](llvm::StringRef word) { return llvm::is_contained(kPlain, word); });
}

} // namespace pipec

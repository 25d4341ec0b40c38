// plan.json to Plan: strict; returns only complete, valid plans.
#include "ir/plan/PlanFromJson.h"

#include "ir/plan/DefaultValue.h"
#include "ir/plan/MergeBySizes.h"
#include "ir/plan/Plan.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/PlanVerifier.h"
#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/support/VersionText.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {
namespace {

using llvm::json::Value;

Dim dimFrom(const Value &value, const std::string &path, JsonReading &reading) {
  Dim dim;
  if (const auto constant = value.getAsInteger()) {
    dim.constant = *constant;
    return dim;
  }
  llvm::Expected<Dim> parsed = parseDim(valueOr(value.getAsString(), ""));
  if (parsed && (parsed->dynamic || parsed->perBatch != 0))
    return *parsed;
  if (!parsed)
    llvm::consumeError(parsed.takeError());
  reading.fail(path, "expected a size as a number, or as text like \"B\", \"2*B+1\" or \"?\"");
  return dim;
}

std::vector<Dim> dimsFrom(JsonObject &object, llvm::StringRef key) {
  std::vector<Dim> dims;
  object.list(key, [&](const Value &element, const std::string &path) {
    dims.push_back(dimFrom(element, path, object.reading()));
  });
  return dims;
}

TensorSpec tensorFrom(JsonObject &owner) {
  TensorSpec spec;
  const Value *value = owner.value("tensor");
  if (!value || value->getAsNull())
    return spec;
  JsonObject object(owner.reading(), value, owner.pathOf("tensor"));
  spec.known = object.has("known") ? object.boolean("known") : true;
  spec.dtype = object.string("dtype");
  spec.shape = dimsFrom(object, "shape");
  spec.strides = dimsFrom(object, "strides");
  spec.requiresGrad = object.boolean("requires_grad");
  spec.bytes = object.integer("bytes");
  object.finish();
  return spec;
}

MergeRule mergeFrom(JsonObject object) {
  MergeRule merge;
  merge.kind = object.parsed<MergeRule::Kind>("rule", parseMergeKind);
  if (merge.kind == MergeRule::Kind::Concat || merge.kind == MergeRule::Kind::Join)
    merge.dim = object.integer("dim");
  object.finish();
  return merge;
}

OutputTree treeFrom(const Value &value, const std::string &path, JsonReading &reading) {
  OutputTree tree;
  if (const auto leaf = value.getAsInteger()) {
    if (*leaf < 0)
      reading.fail(path, fmt::format("expected the number of an output, got {}", *leaf));
    tree.leaf = static_cast<size_t>(*leaf);
    return tree;
  }
  JsonObject object(reading, &value, path);
  for (OutputTree::Kind kind :
       {OutputTree::Kind::Tuple, OutputTree::Kind::List, OutputTree::Kind::Dict})
    if (object.has(toString(kind)))
      tree.kind = kind;
  if (tree.kind == OutputTree::Kind::Leaf) {
    reading.fail(
        path,
        "expected the number of an output, or an object with \"tuple\", \"list\" or \"dict\"");
    return tree;
  }
  object.list(toString(tree.kind), [&](const Value &element, const std::string &elementPath) {
    if (tree.kind != OutputTree::Kind::Dict) {
      tree.children.push_back(treeFrom(element, elementPath, reading));
      return;
    }
    JsonObject entry(reading, &element, elementPath);
    tree.keys.push_back(entry.string("key"));
    if (const Value *child = entry.value("value"))
      tree.children.push_back(treeFrom(*child, elementPath + ".value", reading));
    entry.finish();
  });
  if (object.has("type_name"))
    tree.typeName = object.string("type_name");
  if (tree.kind == OutputTree::Kind::Tuple && object.has("fields"))
    tree.keys = object.strings("fields");
  // A second kind in the same object would be ignored, so it is an error.
  for (OutputTree::Kind kind :
       {OutputTree::Kind::Tuple, OutputTree::Kind::List, OutputTree::Kind::Dict})
    if (kind != tree.kind && object.has(toString(kind)))
      object.fail(toString(kind), "expected one kind of container");
  object.finish();
  return tree;
}

InputSpec inputFrom(JsonObject &object) {
  InputSpec input;
  input.name = object.string("name");
  input.type = object.string("type");
  input.batchDim = object.optionalIndex("batch_dim");
  if (object.has("parts"))
    object.objects("parts", [&](JsonObject &part) {
      std::string path = part.string("path");
      input.parts.push_back({std::move(path), part.optionalIndex("batch_dim")});
    });
  if (object.has("given_whole"))
    input.givenWhole = object.boolean("given_whole");
  input.written = object.boolean("written");
  input.tensor = tensorFrom(object);
  if (object.has("default")) {
    input.defaultValue = *object.value("default");
    if (llvm::Error error = checkDefault(*input.defaultValue))
      object.fail("default", describe(std::move(error)).message);
  }
  return input;
}

Signature signatureFrom(JsonObject object) {
  Signature signature;
  signature.method = object.string("method");
  object.objects("inputs",
                 [&](JsonObject &input) { signature.inputs.push_back(inputFrom(input)); });
  if (const Value *outputs = object.value("outputs"))
    signature.outputs = treeFrom(*outputs, object.pathOf("outputs"), object.reading());
  object.objects("leaves", [&](JsonObject &leaf) {
    OutputLeaf result;
    result.type = leaf.string("type");
    result.merge = mergeFrom(leaf.object("merge"));
    result.tensor = tensorFrom(leaf);
    signature.leaves.push_back(std::move(result));
  });
  signature.batchSymbolic = object.boolean("batch_symbolic");
  signature.batchSize = object.integer("batch_size");
  object.finish();
  return signature;
}

StageInput stageInputFrom(JsonObject &object) {
  StageInput input;
  input.name = object.string("name");
  input.type = object.string("type");
  bool user = object.has(toString(StageInput::Kind::UserInput));
  bool channel = object.has(toString(StageInput::Kind::Channel));
  if (user == channel)
    object.reading().fail(object.path(), "expected exactly one of \"input\" and \"channel\"");
  input.kind = user ? StageInput::Kind::UserInput : StageInput::Kind::Channel;
  input.index = object.index(toString(input.kind));
  return input;
}

StageOutput stageOutputFrom(JsonObject &object) {
  StageOutput output;
  output.name = object.string("name");
  output.type = object.string("type");
  output.channels = object.indices("channels");
  output.leaves = object.indices("leaves");
  output.state = object.optionalIndex("state");
  return output;
}

StageAttribute attributeFrom(JsonObject &object) {
  StageAttribute attribute;
  attribute.name = object.string("name");
  attribute.otherNames = object.strings("other_names");
  attribute.kind = object.parsed<AttributeKind>("kind", parseAttributeKind);
  attribute.uses = object.index("uses");
  attribute.requiresGrad = object.boolean("requires_grad");
  attribute.written = object.boolean("written");
  attribute.bytes = object.integer("bytes");
  attribute.channel = object.optionalIndex("channel");
  return attribute;
}

StageEffects effectsFrom(JsonObject object) {
  StageEffects effects;
  effects.randomOps = object.integers("random_ops");
  effects.stateWrites = object.strings("state_writes");
  effects.prints = object.boolean("prints");
  effects.raises = object.boolean("raises");
  object.finish();
  return effects;
}

StagePlan stageFrom(JsonObject &object) {
  StagePlan stage;
  stage.file = object.string("file");
  stage.firstModule = object.string("first_module");
  stage.lastModule = object.string("last_module");
  stage.nodes = object.integer("nodes");
  object.objects("inputs",
                 [&](JsonObject &input) { stage.inputs.push_back(stageInputFrom(input)); });
  object.objects("outputs",
                 [&](JsonObject &output) { stage.outputs.push_back(stageOutputFrom(output)); });
  object.objects("attributes", [&](JsonObject &attribute) {
    stage.attributes.push_back(attributeFrom(attribute));
  });
  stage.weightChannelsOut = object.indices("weight_channels_out");
  stage.effects = effectsFrom(object.object("effects"));
  stage.parameterBytes = object.integer("parameter_bytes");
  stage.costFlops = object.integer("cost_flops");
  stage.rank = object.index("rank");
  return stage;
}

PortRef portFrom(JsonObject &object) {
  PortRef port;
  port.stage = object.index("stage");
  port.port = object.index("port");
  return port;
}

Channel channelFrom(JsonObject &object) {
  Channel channel;
  channel.name = object.string("name");
  channel.kind = object.parsed<Channel::Kind>("kind", parseChannelKind);
  JsonObject from = object.object("from");
  channel.from = portFrom(from);
  from.finish();
  object.objects("to", [&](JsonObject &to) { channel.to.push_back(portFrom(to)); });
  channel.type = object.string("type");
  channel.tensor = tensorFrom(object);
  channel.skip = object.boolean("skip");
  return channel;
}

Tie tieFrom(JsonObject &object) {
  Tie tie;
  tie.names = object.strings("names");
  tie.stages = object.indices("stages");
  tie.mode = object.parsed<Tie::Mode>("mode", parseTieMode);
  tie.owner = object.index("owner");
  return tie;
}

Normalisation normalisationFrom(JsonObject object) {
  Normalisation result;
  const std::string training = object.string("training");
  if (training == "true" || training == "false")
    result.training = training == "true";
  else if (training != "saved")
    object.fail("training", "expected saved, true or false, got " + training);
  result.keepEval = object.strings("keep_eval");
  result.typeDecisions = object.strings("forms");
  object.finish();
  return result;
}

TrainedParameter parameterFrom(JsonObject &object) {
  TrainedParameter parameter;
  parameter.name = object.string("name");
  parameter.otherNames = object.strings("other_names");
  parameter.dtype = object.string("dtype");
  parameter.shape = object.integers("shape");
  parameter.strides = object.integers("strides");
  object.objects("uses", [&](JsonObject &use) { parameter.uses.push_back(portFrom(use)); });
  return parameter;
}

TrainingPlan trainingFrom(JsonObject object) {
  TrainingPlan training;
  training.loss = object.index("loss");
  if (object.has("count"))
    training.count = object.index("count");
  object.objects("parameters", [&](JsonObject &parameter) {
    training.parameters.push_back(parameterFrom(parameter));
  });
  training.whyWhole = object.strings("why_whole");
  training.recompute = object.indices("recompute");
  if (object.has("recompute_except_last"))
    training.recomputeExceptLast = object.boolean("recompute_except_last");
  if (object.has("costs"))
    object.objects("costs", [&](JsonObject &costs) {
      ExpectedCosts &stage = training.costs.emplace_back();
      stage = {costs.integer("forward_ns"), costs.integer("input_grad_ns"),
               costs.integer("weight_grad_ns"), costs.integer("kept_bytes"),
               costs.integer("freed_by_input_grad_bytes")};
      if (costs.has("pending_bytes")) {
        const int64_t pending = costs.integer("pending_bytes");
        if (stage.freedByInputGrad != 0 || pending <= stage.kept)
          costs.fail("pending_bytes",
                     fmt::format("expected more than kept_bytes, {}, where I frees nothing, got {}",
                                 stage.kept, pending));
        stage.freedByInputGrad = stage.kept - pending;
      }
      if (costs.has("optimizer_ns"))
        stage.optimizer = costs.integer("optimizer_ns");
    });
  if (object.has("samples"))
    training.samples = object.integer("samples");
  object.finish();
  return training;
}

/// The version comes first, because this reader cannot judge the keys of a newer format.
llvm::Error readVersion(JsonObject &object, Plan &plan) {
  JsonObject version = object.object("format_version");
  plan.major = version.integer("major");
  plan.minor = version.integer("minor");
  if (!object.reading().error.empty())
    return llvm::Error::success(); // reported by the caller
  std::string made = object.has("tool_version") ? object.string("tool_version") : "unknown";
  if (plan.major != Plan::kMajor)
    return makeError(
        ExitCode::Version,
        fmt::format("plan.json: format version: expected {}.x, got {}.{} (written by pipec {})",
                    Plan::kMajor, plan.major, plan.minor, made),
        "compile the model again, or use the version of pipec that wrote the artifact");
  plan.requiredFeatures = object.strings("required_features");
  auto unknown = llvm::find_if(plan.requiredFeatures, [](const std::string &feature) {
    return feature != "absent-arguments" && feature != "counted-loss" &&
           feature != "described-weights" && feature != kMergeRulesFeature &&
           feature != "moved-operators" && feature != "parts-of-arguments" &&
           feature != "schedule-table" && feature != "training" && feature != "varying-sizes";
  });
  if (unknown != plan.requiredFeatures.end() && object.reading().error.empty())
    return makeError(ExitCode::Version,
                     fmt::format("plan.json: needs feature \"{}\" of format {}.{}: this pipec "
                                 "reads format {}.{} without it",
                                 *unknown, plan.major, plan.minor, Plan::kMajor, Plan::kMinor),
                     "use the version of pipec that wrote the artifact (" + made +
                         ") or a newer one");
  object.reading().unknownKeysAreErrors = plan.minor <= Plan::kMinor;
  version.finish();
  return llvm::Error::success();
}

void readBody(JsonObject &object, Plan &plan) {
  plan.toolVersion = versionFrom(object, "tool_version");
  plan.torchVersion = versionFrom(object, "torch_version");
  plan.sourceDigest = object.string("source_digest");
  plan.mode = object.parsed<Mode>("mode", parseMode);
  plan.chain = object.boolean("chain");
  plan.signature = signatureFrom(object.object("signature"));
  object.objects("stages", [&](JsonObject &stage) { plan.stages.push_back(stageFrom(stage)); });
  object.objects("channels",
                 [&](JsonObject &channel) { plan.channels.push_back(channelFrom(channel)); });
  object.objects("ties", [&](JsonObject &tie) { plan.ties.push_back(tieFrom(tie)); });
  plan.scheduleName = object.string("schedule");
  plan.microBatches = object.integer("microbatches", 1, int64_t(1) << 20);
  plan.ranks = object.index("ranks");
  plan.obligations = object.parsedList<Obligation>("obligations", parseObligation);
  if (plan.minor >= 1)
    plan.normalisation = normalisationFrom(object.object("normalisation"));
  if (plan.minor >= 2 && object.has("training"))
    plan.training = trainingFrom(object.object("training"));
  object.finish();
}

} // namespace

llvm::Expected<Plan> planFromJson(llvm::StringRef text, std::vector<std::string> &warnings) {
  JsonLimits limits;
  limits.what = "plan.json";
  Value document = TRY(parseJson(text, limits));
  JsonReading reading;
  JsonObject object(reading, &document, "");
  Plan plan;
  TRY(readVersion(object, plan));
  if (reading.error.empty())
    readBody(object, plan);
  if (!reading.error.empty())
    return makeError(ExitCode::BadArtifact, "plan.json: " + reading.error);
  if (llvm::Error error = verify(plan))
    return withContext(std::move(error), "plan.json");
  for (std::string &warning : reading.warnings)
    warnings.push_back("plan.json: " + warning);
  return plan;
}

} // namespace pipec

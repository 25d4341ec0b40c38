// Plans: text of the small types, plan.json there and back, strict reading, and each rule of the
// verifier.
#include "ir/plan/Plan.h"

#include "ir/plan/PlanFromJson.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/PlanToJson.h"
#include "ir/plan/PlanVerifier.h"
#include "ir/support/Json.h"
#include "tests/support/Matchers.h"
#include "tests/support/SamplePlan.h"

#include <cmath>

namespace pipec {
namespace {

llvm::Expected<Plan> read(const std::string &text) {
  std::vector<std::string> warnings;
  return planFromJson(text, warnings);
}

/// plan.json of the rich plan with one piece of text replaced; the piece must be there.
std::string edited(const std::string &from, const std::string &to) {
  std::string text = toJson(richPlan());
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << "\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Dim, roundTrips) {
  for (const char *text :
       {"3", "0", "-2", "B", "-B", "2*B", "-3*B", "B+1", "2*B+1", "B-1", "-B+10", "?"}) {
    llvm::Expected<Dim> dim = parseDim(text);
    ASSERT_TRUE(succeeded(dim)) << text;
    EXPECT_EQ(toString(*dim), text);
  }
  EXPECT_EQ(llvm::cantFail(parseDim("2*B+1")).at(5), 11);
}

TEST(Dim, hasOneTextForOneValue) {
  for (const char *text :
       {"", "b", "1*B", "0*B", "B+0", "B*2", "2B", "03", "+3", "2*B+", "2*B++1", "B+01", "B1", "??",
        " 3", "9223372036854775808", "99999999999999999999*B"})
    EXPECT_TRUE(failedWith(parseDim(text), ExitCode::BadArtifact, "expected a form like")) << text;
}

TEST(AttributeKind, roundTrips) {
  for (const char *text : {"parameter", "buffer", "constant", "value", "object"})
    EXPECT_EQ(toString(llvm::cantFail(parseAttributeKind(text))), text);
  EXPECT_TRUE(failedWith(parseAttributeKind("weight"), ExitCode::BadArtifact,
                         "(parameter, buffer, constant, value, object), got \"weight\""));
}

TEST(DefaultValue, keepsFloatsExactAndApartFromIntegers) {
  for (double value : {0.1, 1.0, -0.0, 5e-324, 1.7976931348623157e308, 1e22}) {
    std::optional<double> back = floatFromDefault(floatDefault(value));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, value);
    EXPECT_EQ(std::signbit(*back), std::signbit(value));
  }
  EXPECT_TRUE(std::isnan(*floatFromDefault(floatDefault(NAN))));
  EXPECT_EQ(floatFromDefault(floatDefault(-INFINITY)), -INFINITY);
  EXPECT_FALSE(floatFromDefault(1));
  EXPECT_FALSE(floatFromDefault(llvm::json::Object{{"float", "0.5"}}));
  EXPECT_FALSE(floatFromDefault(llvm::json::Object{{"float", "0x1p-1x"}}));
  EXPECT_TRUE(failedWith(checkDefault(llvm::json::Array{0.5}), ExitCode::BadArtifact,
                         "expected null, a bool"));
}

TEST(DefaultValue, keepsComplexNumbersAndDevices) {
  const std::complex<double> number(0.1, -0.0);
  EXPECT_EQ(complexFromDefault(complexDefault(number)), number);
  EXPECT_TRUE(succeeded(checkDefault(complexDefault(number))));
  EXPECT_EQ(deviceFromDefault(deviceDefault("cuda:1"))->str(), "cuda:1");
  EXPECT_TRUE(succeeded(checkDefault(deviceDefault("cpu"))));
  for (const char *wrong : {"", "cpu:", ":0", "cuda:-1", "cuda:x", "/dev/null", "cuda:1000"})
    EXPECT_TRUE(failedWith(checkDefault(deviceDefault(wrong)), ExitCode::BadArtifact, "\"device\""))
        << wrong;
  EXPECT_FALSE(complexFromDefault(llvm::json::Object{{"complex", llvm::json::Array{1, 2}}}));
  EXPECT_FALSE(complexFromDefault(floatDefault(1)));
}

TEST(DefaultValue, keepsTuplesApartFromLists) {
  const llvm::json::Value tuple = tupleDefault(llvm::json::Array{1, floatDefault(0.5)});
  ASSERT_TRUE(tupleFromDefault(tuple));
  EXPECT_EQ(tupleFromDefault(tuple)->size(), 2u);
  EXPECT_FALSE(tupleFromDefault(llvm::json::Array{1}));
  EXPECT_FALSE(tupleFromDefault(floatDefault(1)));
  EXPECT_TRUE(succeeded(checkDefault(tuple)));
  EXPECT_TRUE(succeeded(checkDefault(tupleDefault(llvm::json::Array{llvm::json::Array{tuple}}))));
  for (const llvm::json::Value &wrong :
       {tupleDefault(llvm::json::Array{0.5}), llvm::json::Value(llvm::json::Object{{"tuple", 1}}),
        llvm::json::Value(llvm::json::Object{{"tuple", llvm::json::Array{}}, {"float", "0x1p-1"}})})
    EXPECT_TRUE(failedWith(checkDefault(wrong), ExitCode::BadArtifact, "{\"tuple\": [...]}"));
}

TEST(Plan, roundTrips) {
  for (const Plan &plan : {richPlan(), trainedPlan(), chainPlan({0}), chainPlan({0, 1, 0, 1})}) {
    std::string text = toJson(plan);
    llvm::Expected<Plan> back = read(text);
    ASSERT_TRUE(succeeded(back)) << text;
    EXPECT_EQ(*back, plan);
    EXPECT_EQ(toJson(*back), text);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    Plan plan = randomPlan(random);
    llvm::Expected<Plan> back = read(toJson(plan));
    ASSERT_TRUE(succeeded(back));
    EXPECT_EQ(*back, plan);
  }
}

TEST(Plan, PartsOfAnArgument) {
  Plan plan = chainPlan({0, 1});
  plan.signature.inputs[0].type = "Dict[str, Tensor]";
  plan.signature.inputs[0].tensor = {};
  for (StagePlan &stage : plan.stages)
    for (StageInput &input : stage.inputs)
      if (input.kind == StageInput::Kind::UserInput)
        input.type = "Dict[str, Tensor]";
  plan.signature.inputs[0].batchDim.reset();
  plan.signature.inputs[0].parts = {{"table", std::nullopt}, {"x.0", 1}};
  EXPECT_EQ(batchDimText(plan.signature.inputs[0]), "table=none, x.0=1");
  EXPECT_EQ(minorOf(plan), 4);
  plan.requiredFeatures = featuresOf(plan);
  EXPECT_TRUE(llvm::is_contained(plan.requiredFeatures, "parts-of-arguments"));
  ASSERT_TRUE(succeeded(verify(plan)));
  EXPECT_EQ(llvm::cantFail(read(toJson(plan))), plan);
  std::swap(plan.signature.inputs[0].parts[0], plan.signature.inputs[0].parts[1]);
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "expected paths in order"));
  plan.signature.inputs[0].parts = {{"x", -1}};
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "part x: batch dimension -1"));
}

TEST(Plan, ATrainingIsVerified) {
  struct Case {
    void (*damage)(Plan &plan);
    const char *message;
  };
  const Case cases[] = {
      {[](Plan &plan) { plan.mode = Mode::Infer; }, "training: expected mode train, got infer"},
      {[](Plan &plan) { plan.training->loss = 7; }, "training: no result 7"},
      {[](Plan &plan) {
         plan.training->count = 7;
         plan.requiredFeatures = featuresOf(plan);
       },
       "training: count: expected a result below 3 that is not the loss, got 7"},
      {[](Plan &plan) {
         plan.training->count = 2;
         plan.requiredFeatures = featuresOf(plan);
       },
       "training: count: expected a result below 3 that is not the loss, got 2"},
      {[](Plan &plan) { plan.training->whyWhole.pop_back(); },
       "training: why_whole: expected 3 stages, got 2"},
      {[](Plan &plan) { plan.training->costs.pop_back(); },
       "training: costs: expected 3 stages, got 2"},
      {[](Plan &plan) { plan.training->costs[1].forward = -1; },
       "training: costs: expected no negative times and bytes"},
      {[](Plan &plan) {
         plan.training->recompute = {2, 0};
       },
       "training: recompute: expected stages below 3, ascending, got 0"},
      {[](Plan &plan) { plan.training->parameters[0].uses.clear(); },
       "training: parameter embedding.weight: expected a stage that reads it, got none"},
      {[](Plan &plan) {
         std::swap(plan.training->parameters[0].uses[0], plan.training->parameters[0].uses[1]);
       },
       "expected stages from the last to the first, got 2 after 0"},
      {[](Plan &plan) { plan.training->parameters[1].uses[0].port = 9; },
       "no attribute 9 of stage 2"},
      {[](Plan &plan) { plan.training->parameters[1].uses[0].port = 0; }, "has another name"},
      {[](Plan &plan) { plan.training->parameters[1].dtype = "int64"; },
       "expected a floating dtype, got \"int64\""},
      {[](Plan &plan) { plan.training->parameters[1].strides.clear(); },
       "expected 1 strides, got 0"},
      {[](Plan &plan) { plan.training->parameters[0].uses.pop_back(); }, "no stage holds it"},
      {[](Plan &plan) {
         plan.training->parameters[1].uses = {{0, 1}};
       },
       "training: parameter shared: uses: expected one of stage 2, which has it as shared, got "
       "none"},
      {[](Plan &plan) { plan.training->parameters.pop_back(); },
       "2 faults: stage 0, attribute shared: requires a gradient, but is none of the trained "
       "parameters; stage 2, attribute shared: requires a gradient"},
      {[](Plan &plan) { plan.training->parameters[0].otherNames = {"head.weight"}; },
       "training: parameter embedding.weight: expected alias.weight among its names, as stage 0, "
       "attribute embedding.weight has it"},
      {[](Plan &plan) { plan.training->parameters[1].otherNames = {"alias.weight"}; },
       "training: parameter shared: expected names of its own, got alias.weight"},
      {[](Plan &plan) { plan.training->parameters[1].otherNames = {"ghost"}; },
       "training: parameter shared: expected an attribute ghost of some stage, got none"},
      {[](Plan &plan) { plan.training->parameters[1].shape = {3}; },
       "training: parameter shared: shape: expected one of 8 bytes as stage 2, attribute shared "
       "has, got [3] of float32"},
      {[](Plan &plan) { plan.training->parameters[1].shape = {INT64_MAX}; },
       "shape: expected one of 8 bytes"},
      {[](Plan &plan) {
         plan.stages[2].attributes[1].requiresGrad = false;
         plan.training->parameters[1].uses = {{0, 1}};
       },
       "stage 2, attribute shared: requires no gradient, but is trained as shared"},
      {[](Plan &plan) { plan.ties.pop_back(); },
       "training: parameter shared: expected a tie of stages 0, 2, which have it, got none"},
      {[](Plan &plan) { plan.ties.erase(plan.ties.begin()); },
       "training: parameter embedding.weight: expected a tie of stages 0, 2, which have it, got "
       "none"},
      {[](Plan &plan) {
         plan.stages[0].attributes[1].name = "first";
         plan.ties[1].names = {"first", "shared"};
         plan.training->parameters = {plan.training->parameters[0],
                                      {"first", {}, "float32", {2}, {1}, {{0, 1}}},
                                      {"shared", {}, "float32", {2}, {1}, {{2, 1}}}};
       },
       "tie 1 (first): expected one parameter, got weights of first, shared"},
      {[](Plan &plan) {
         plan.channels[2].from = {0, 0};
         plan.stages[0].outputs[0].channels = {0, 2};
         plan.stages[0].outputs.erase(plan.stages[0].outputs.begin() + 1);
       },
       "channel 2 (c2): requires_grad: expected true as channel 0 (c0) has it, got false"},
      {[](Plan &plan) { plan.training->loss = 1; },
       "training: loss: expected a floating-point tensor of one element, got result 1"},
      {[](Plan &plan) {
         plan.training->count = 0;
         plan.requiredFeatures = featuresOf(plan);
       },
       "training: count: expected one number, got result 0"},
      {[](Plan &plan) { plan.scheduleName = "zb h1"; }, "schedule: expected"},
      {[](Plan &plan) { plan.training.reset(); }, ""}};
  ASSERT_FALSE(static_cast<bool>(verify(trainedPlan())));
  for (const Case &one : cases) {
    Plan plan = trainedPlan();
    one.damage(plan);
    const ErrorText error = describe(verify(plan));
    EXPECT_EQ(error.code, ExitCode::BadArtifact) << one.message;
    EXPECT_NE(error.message.find(one.message), std::string::npos) << error.message;
  }
}

TEST(Plan, ALossMayBeAPair) {
  Plan plan = trainedPlan();
  plan.training->count = 1;
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "counted-loss"));
  plan.requiredFeatures = featuresOf(plan);
  ASSERT_TRUE(succeeded(verify(plan)));
  llvm::Expected<Plan> back = ::pipec::read(toJson(plan));
  ASSERT_TRUE(succeeded(back));
  EXPECT_EQ(*back, plan);
}

TEST(Plan, readsStrictly) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"\"chain\": false", "\"chain\": 0", "plan.json: chain: expected true or false, got 0"},
      {"\"chain\": false,", "", "plan.json: top level: missing key \"chain\""},
      {"\"chain\": false", "\"chain\": false, \"chian\": 1",
       "plan.json: top level: unknown key \"chian\""},
      {"\"name\": \"c0\"", "\"nmae\": \"c0\"", "plan.json: channels[0]: missing key \"name\""},
      {"\"skip\": false", "\"skip\": false, \"hop\": 1",
       "plan.json: channels[0]: unknown key \"hop\""},
      {"\"microbatches\": 4", "\"microbatches\": 0",
       "microbatches: expected a number from 1 to 1048576, got 0"},
      {"\"microbatches\": 4", "\"microbatches\": 4.5",
       "microbatches: expected an integer, got 4.5"},
      {"\"microbatches\": 4", "\"microbatches\": 9223372036854775808", "integer outside int64"},
      {"\"microbatches\": 4", "\"microbatches\": \"4\"",
       "microbatches: expected an integer, got \"4\""},
      {"\"mode\": \"train\"", "\"mode\": \"fly\"",
       "mode: expected a mode (infer, train), got \"fly\""},
      {"\"ties\": [", "\"ties\": {\"a\": [", "plan.json: line"},
      {"\"obligations\": [\"recompute aten::size 1 times in stage 1\"]", "\"obligations\": [1]",
       "obligations[0]: expected a string, got 1"},
      {"\"obligations\": [\"recompute aten::size 1 times in stage 1\"]", "\"obligations\": {}",
       "obligations: expected an array, got an object"},
      {"\"rule\": \"concat\"", "\"rule\": \"glue\"",
       "signature.leaves[0].merge.rule: expected a merge rule"},
      {"\"dim\": 1, \"rule\": \"concat\"", "\"rule\": \"concat\"",
       "signature.leaves[0].merge: missing key \"dim\""},
      {"\"rule\": \"same\"", "\"rule\": \"same\", \"dim\": 0", "unknown key \"dim\""},
      {"\"2*B+1\"", "\"2*C\"", "shape[2]: expected a size as a number"},
      {"\"2*B+1\"", "\"3\"", "shape[2]: expected a size as a number"},
      {"\"channel\": 0, \"name\": \"c0\"", "\"channel\": 0, \"input\": 0, \"name\": \"c0\"",
       "stages[1].inputs[0]: expected exactly one of"},
      {"\"channel\": 0, \"name\": \"c0\"", "\"channel\": -1, \"name\": \"c0\"",
       "stages[1].inputs[0].channel: expected a number from 0"},
      {"{\"float\": \"0x1p+0\"}", "1.5", "default: expected null, a bool, an integer"},
      {"\"source_digest\": \"sha256:a", "\"source_digest\": \"sha256:A",
       "source digest: expected sha256:"},
      {"\"major\": 1", "\"major\": \"1\"", "format_version.major: expected an integer"},
      {"\"training\": \"false\"", "\"training\": \"maybe\"",
       "normalisation.training: expected saved, true or false, got maybe"},
      {"\"fields\": [\"scores\"]", "\"fields\": [\"scores\", \"more\"]",
       "tuple with 1 values: expected 1 distinct keys, got 2"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(read(edited(c.from, c.to)), ExitCode::BadArtifact, c.message)) << c.to;
  EXPECT_TRUE(
      failedWith(read("[]"), ExitCode::BadArtifact, "top level: expected an object, got an array"));
  EXPECT_TRUE(failedWith(read(""), ExitCode::BadArtifact, "plan.json: line 1, column 1"));
}

TEST(Plan, outputTreeIsRead) {
  struct Case {
    const char *to, *message;
  };
  const Case cases[] = {
      {"\"outputs\": -1", "expected the number of an output"},
      {"\"outputs\": {}", "expected the number of an output, or an object"},
      {"\"outputs\": {\"tuple\": [0], \"list\": []}", "expected one kind of container"},
      {"\"outputs\": {\"tuple\": [1, 0, 2]}", "output 0: expected number 0, got 1"},
      {"\"outputs\": {\"tuple\": [0, 1]}", "has 2 outputs, but 3 are described"},
      {"\"outputs\": {\"dict\": [{\"key\": \"a\", \"value\": 0}, {\"key\": \"a\", \"value\": 1}]}",
       "expected 2 distinct keys, got 1"},
      {"\"outputs\": {\"dict\": [0]}", "signature.outputs.dict[0]: expected an object, got 0"},
  };
  llvm::json::Value document = llvm::cantFail(llvm::json::parse(toJson(richPlan())));
  for (const Case &c : cases) {
    llvm::json::Value changed = document;
    llvm::json::Value outputs = llvm::cantFail(llvm::json::parse(std::string("{") + c.to + "}"));
    (*changed.getAsObject()->getObject("signature"))["outputs"] =
        *outputs.getAsObject()->get("outputs");
    EXPECT_TRUE(failedWith(read(printJson(changed)), ExitCode::BadArtifact, c.message)) << c.to;
  }
}

TEST(Plan, refusesAnotherMajorNamingBoth) {
  EXPECT_TRUE(failedWith(read(edited("\"major\": 1", "\"major\": 2")), ExitCode::Version,
                         "expected 1.x, got 2.6 (written by pipec 0.0.0)"));
  // A newer major may have changed everything else.
  EXPECT_TRUE(failedWith(read("{\"format_version\": {\"major\": 9, \"minor\": 3, \"patch\": 1}}"),
                         ExitCode::Version, "got 9.3"));
}

TEST(Plan, refusesUnknownRequiredFeature) {
  EXPECT_TRUE(
      failedWith(read(edited("\"required_features\": []", "\"required_features\": [\"sharding\"]")),
                 ExitCode::Version, "needs feature \"sharding\""));
}

TEST(Plan, varyingSizesAreARequiredFeature) {
  const Dim varies{.perBatch = 0, .constant = 0, .dynamic = true};
  Plan plan = richPlan();
  std::vector<Dim> &sizes = plan.signature.leaves[0].tensor.shape;
  ASSERT_TRUE(plan.signature.inputs[0].tensor.shape[3].dynamic);
  EXPECT_TRUE(succeeded(verify(plan))); // its leaves tell how they grow
  for (Dim &dim : sizes)
    dim = varies; // their growth with the batch does not show any more
  EXPECT_TRUE(failedWith(
      verify(plan), ExitCode::BadArtifact,
      "required features: expected [varying-sizes] as signature, schedule and obligations say, "
      "got []"));
  plan.requiredFeatures = {"varying-sizes"};
  ASSERT_TRUE(succeeded(verify(plan)));
  llvm::Expected<Plan> read = ::pipec::read(toJson(plan));
  ASSERT_TRUE(succeeded(read));
  EXPECT_EQ(*read, plan);
  plan.signature.leaves[0].merge = {MergeRule::Kind::Mean, 0};
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "expected concat, same or list"));
  plan.signature.leaves[0].merge = {MergeRule::Kind::Concat, 9};
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "expected a dimension below"));
  plan.signature.leaves[0].merge = {MergeRule::Kind::Concat, 0};
  sizes[0] = {.perBatch = 0, .constant = 7, .dynamic = false};
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "grows with the batch"));
}

TEST(Plan, argumentsThatTheUserGaveWhole) {
  Plan plan = chainPlan({0, 1});
  EXPECT_EQ(minorOf(plan), 3);
  EXPECT_EQ(toJson(plan).find("given_whole"), std::string::npos);
  plan.signature.inputs[0].batchDim.reset();
  plan.signature.inputs[0].givenWhole = true;
  EXPECT_EQ(minorOf(plan), 5);
  const Plan read = llvm::cantFail(::pipec::read(toJson(plan)));
  EXPECT_TRUE(read.signature.inputs[0].givenWhole);
  EXPECT_EQ(read, plan);
}

/// Gradients that wait for W may be more than what I frees. Older plans know no such stage.
TEST(Plan, saysWhatWaitsForW) {
  Plan plan = trainedPlan();
  plan.training->costs.assign(plan.stages.size(), {5, 6, 7, 100, 40});
  EXPECT_LT(minorOf(plan), 6);
  EXPECT_EQ(toJson(plan).find("pending_bytes"), std::string::npos);
  plan.training->costs[1].freedByInputGrad = -20;
  EXPECT_EQ(minorOf(plan), 6);
  std::string text = toJson(plan);
  EXPECT_EQ(llvm::cantFail(::pipec::read(text)), plan);
  const size_t place = text.find("\"pending_bytes\": 120");
  ASSERT_NE(place, std::string::npos) << text;
  text.replace(place, std::string("\"pending_bytes\": 120").size(), "\"pending_bytes\": 100");
  EXPECT_TRUE(failedWith(::pipec::read(text), ExitCode::BadArtifact,
                         "training.costs[1].pending_bytes: expected more than kept_bytes, 100, "
                         "where I frees nothing, got 100"));
}

/// What a reader needs besides the costs of stages to simulate the step that the planner expects.
TEST(Plan, saysWhatTheOptimizerTakes) {
  Plan plan = trainedPlan();
  EXPECT_LT(minorOf(plan), 6);
  for (const char *key : {"optimizer_ns", "\"samples\""})
    EXPECT_EQ(toJson(plan).find(key), std::string::npos) << key;
  for (int64_t samples : {0, 8}) {
    plan.training->samples = samples;
    plan.training->costs[1].optimizer = samples ? 0 : 90;
    EXPECT_EQ(minorOf(plan), 6);
    EXPECT_EQ(llvm::cantFail(::pipec::read(toJson(plan))), plan);
  }
  plan.training->samples = -1;
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "training: samples: expected none"));
}

TEST(Plan, describesWeightsThatAreSent) {
  Plan plan = richPlan();
  TensorSpec &sent = plan.channels[3].tensor;
  sent.known = sent.requiresGrad = true;
  sent.dtype = "float32";
  sent.shape = {{0, 2, false}};
  sent.strides = {{0, 1, false}};
  sent.bytes = 8;
  plan.requiredFeatures = featuresOf(plan);
  EXPECT_EQ(plan.requiredFeatures, std::vector<std::string>{"described-weights"});
  EXPECT_EQ(minorOf(plan), 4);
  llvm::Expected<Plan> back = read(toJson(plan));
  ASSERT_TRUE(succeeded(back));
  EXPECT_EQ(*back, plan);
  sent.shape[0].constant = 3;
  sent.bytes = 12;
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact,
                         "channel 3 (w0): bytes: expected 8 as stage 0, attribute "
                         "embedding.weight has, got 12"));
  sent.shape[0].constant = 2;
  sent.bytes = 8;
  sent.requiresGrad = false;
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact,
                         "channel 3 (w0): requires_grad: expected true as stage 0, attribute "
                         "embedding.weight has it, got false"));
}

/// A pipec that does not know of them must not run the plan: it says so by the feature, before it
/// comes to the obligation.
TEST(Plan, movedOperatorsAreARequiredFeature) {
  Plan plan = richPlan();
  plan.obligations.push_back(Obligation::reorder({1, 0}));
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact,
                         "required features: expected [moved-operators] as signature, schedule and "
                         "obligations say, got []"));
  plan.requiredFeatures = featuresOf(plan);
  ASSERT_TRUE(succeeded(verify(plan)));
  llvm::Expected<Plan> read = ::pipec::read(toJson(plan));
  ASSERT_TRUE(succeeded(read));
  EXPECT_EQ(*read, plan);
}

TEST(Plan, olderMinorHasNoNormalisation) {
  Plan old = richPlan();
  old.minor = 0;
  old.normalisation = {};
  old.signature.outputs.keys.clear();
  const std::string text = toJson(old);
  EXPECT_EQ(text.find("normalisation"), std::string::npos);
  llvm::Expected<Plan> plan = read(text);
  ASSERT_TRUE(succeeded(plan));
  EXPECT_EQ(*plan, old);
  EXPECT_EQ(toJson(*plan), text);
}

TEST(Plan, newerMinorWarnsOfUnknownKeys) {
  std::string text = edited("\"minor\": 6", "\"minor\": 8");
  std::vector<std::string> warnings;
  EXPECT_TRUE(succeeded(planFromJson(text, warnings)));
  EXPECT_TRUE(warnings.empty());
  text.replace(text.find("\"skip\""), 6, "\"jump\": 1, \"skip\"");
  llvm::Expected<Plan> plan = planFromJson(text, warnings);
  ASSERT_TRUE(succeeded(plan));
  EXPECT_EQ(plan->minor, 8);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "plan.json: channels[0]: unknown key \"jump\"");
}

/// Each edit breaks one rule of the verifier.
TEST(PlanVerifier, namesWhatIsWrong) {
  struct Case {
    const char *message;
    void (*edit)(Plan &);
  };
  const Case
      cases
          [] =
              {
                  {"expected at least one stage", [](Plan &p) { p.stages.clear(); }},
                  {"micro-batches: expected at least 1, got 0",
                   [](Plan &p) { p.microBatches = 0; }},
                  {"schedule: expected forward-only or table, got \"made-up\"",
                   [](Plan &p) { p.scheduleName = "made-up"; }},
                  {"source digest", [](Plan &p) { p.sourceDigest = "sha256:12"; }},
                  {"stage 1: on rank 7, but the plan has 2 ranks",
                   [](Plan &p) { p.stages[1].rank = 7; }},
                  {"rank 2: has no stage", [](Plan &p) { p.ranks = 3; }},
                  {"stage 0: \"../x.pt\" is not a plain file name",
                   [](Plan &p) { p.stages[0].file = "../x.pt"; }},
                  {"stage 0: \"\" is not a plain file name",
                   [](Plan &p) { p.stages[0].file = ""; }},
                  {"stage 0: \".x\" is not a plain file name",
                   [](Plan &p) { p.stages[0].file = ".x"; }},
                  {"stage 1: file stage-0.pt is used twice",
                   [](Plan &p) { p.stages[1].file = "stage-0.pt"; }},
                  {"stage 1: file MANIFEST is used twice",
                   [](Plan &p) { p.stages[1].file = "MANIFEST"; }},
                  {"model input 1 (x): expected a name of its own",
                   [](Plan &p) { p.signature.inputs[1].name = "x"; }},
                  {"batch dimension -1 is negative",
                   [](Plan &p) { p.signature.inputs[0].batchDim = -1; }},
                  {"model input 1 (n): default: expected null",
                   [](Plan &p) { p.signature.inputs[1].defaultValue = 0.5; }},
                  {"output scores.logits: merge dimension -2 is negative",
                   [](Plan &p) { p.signature.leaves[0].merge.dim = -2; }},
                  {"has 3 outputs, but 4 are described",
                   [](Plan &p) { p.signature.leaves.emplace_back(); }},
                  {"channel 0 (c0): tensor with 4 sizes and 3 strides",
                   [](Plan &p) { p.channels[0].tensor.strides.pop_back(); }},
                  {"channel 0 (c0): tensor without a dtype",
                   [](Plan &p) { p.channels[0].tensor.dtype = ""; }},
                  {"channel 0 (c0): tensor of -1 bytes",
                   [](Plan &p) { p.channels[0].tensor.bytes = -1; }},
                  {"stage 0, input 0 (x): model input 9 does not exist",
                   [](Plan &p) { p.stages[0].inputs[0].index = 9; }},
                  {"stage 1, input 0 (c0): channel 9 does not exist",
                   [](Plan &p) { p.stages[1].inputs[0].index = 9; }},
                  {"stage 1, input 0 (c2): channel 2 (c2) does not lead here",
                   [](Plan &p) { std::swap(p.stages[1].inputs[0], p.stages[1].inputs[1]); }},
                  {"stage 1, input 0 (c0): type: expected Tensor as channel 0 (c0), got int",
                   [](Plan &p) { p.stages[1].inputs[0].type = "int"; }},
                  {"stage 0, output 0 (c0): type: expected Tensor",
                   [](Plan &p) { p.stages[0].outputs[0].type = "int"; }},
                  {"stage 0, output 0 (c0): channel 9 does not exist",
                   [](Plan &p) { p.stages[0].outputs[0].channels = {9}; }},
                  {"stage 0, output 0 (c0): channel 1 (c1) does not start here",
                   [](Plan &p) { p.stages[0].outputs[0].channels = {1}; }},
                  {"stage 0, output 0 (c0): channel 0 (c0) does not start here",
                   [](Plan &p) {
                     p.stages[0].outputs[0].channels = {0, 0};
                   }},
                  {"channel 0 (c0): stage 0, port 0 does not list it",
                   [](Plan &p) { p.stages[0].outputs[0].channels = {}; }},
                  {"stage 0, output 0 (c0): output 9 does not exist",
                   [](Plan &p) { p.stages[0].outputs[0].leaves = {9}; }},
                  {"output scores.logits: made by stage 0, output 0 (c0) and by stage 2, output 0 "
                   "(y)",
                   [](Plan &p) {
                     p.stages[0].outputs[0].leaves = {0}, p.signature.leaves[0].tensor = {};
                   }},
                  {"output scores.more.1: no stage makes it",
                   [](Plan &p) { p.stages[1].outputs.back().leaves = {}; }},
                  {"stage 2, output 1 (count): attribute 9 does not exist",
                   [](Plan &p) { p.stages[2].outputs[1].state = 9; }},
                  {"stage 2, output 1 (count): is the new value of an attribute and something else "
                   "as well",
                   [](Plan &p) {
                     p.stages[1].outputs.back().leaves = {}, p.stages[2].outputs[1].leaves = {2};
                   }},
                  {"is not marked as written", [](Plan &p) { p.stages[2].outputs[1].state = 1; }},
                  {"channel 0 (c0): starts at stage 9, but there are 3 stages",
                   [](Plan &p) {
                     p.channels.back().from.stage = 9, p.channels[0].from.stage = 9,
                     p.stages[0].outputs.clear(), p.stages[0].weightChannelsOut.clear();
                   }},
                  {"channel 0 (c0): leads nowhere",
                   [](Plan &p) {
                     p.channels[0].to.clear(), p.stages[1].inputs.erase(p.stages[1].inputs.begin()),
                         p.channels[2].to[0].port = 0;
                   }},
                  {"channel 0 (c0): skip: expected false, got true",
                   [](Plan &p) { p.channels[0].skip = true; }},
                  {"channel 2 (c2): skip: expected true, got false",
                   [](Plan &p) { p.channels[2].skip = false; }},
                  {"channel 2 (c2): its consumers are not in ascending order",
                   [](Plan &p) { std::swap(p.channels[2].to[0], p.channels[2].to[1]); }},
                  {"channel 0 (c0): leads to stage 9, but there are 3 stages",
                   [](Plan &p) {
                     p.channels[0].to.push_back({9, 0});
                   }},
                  {"channel 0 (c0): goes backwards from stage 0 to stage 0",
                   [](Plan &p) {
                     p.channels[0].to.insert(p.channels[0].to.begin(), {0, 0});
                   }},
                  {"channel 0 (c0): stage 2, port 0 does not read it",
                   [](Plan &p) {
                     p.channels[0].to.push_back({2, 0});
                   }},
                  {"channel 1 (c0): expected a name of its own",
                   [](Plan &p) {
                     p.channels[1].name = p.stages[1].outputs[0].name = p.stages[2].inputs[0].name =
                         "c0";
                   }},
                  {"stage 0, attribute shared: its other name embedding.weight is used twice",
                   [](Plan &p) { p.stages[0].attributes[1].otherNames = {"embedding.weight"}; }},
                  {"stage 0, attribute shared: expected a name of its own",
                   [](Plan &p) { p.stages[0].attributes[0].name = "shared"; }},
                  {"stage 2, attribute head.weight: channel 9 does not exist",
                   [](Plan &p) { p.stages[2].attributes[0].channel = 9; }},
                  {"stage 2, attribute head.weight: channel 0 (c0) does not lead here",
                   [](Plan &p) { p.stages[2].attributes[0].channel = 0; }},
                  {"channel 3 (w0): stage 0, port 0 does not list it",
                   [](Plan &p) { p.stages[0].weightChannelsOut.clear(); }},
                  {"stage 0: sends weight channel 0, which does not start here",
                   [](Plan &p) { p.stages[0].weightChannelsOut = {0}; }},
                  {"stage 2: writes state gone, which it does not have",
                   [](Plan &p) { p.stages[2].effects.stateWrites = {"gone"}; }},
                  {"stage 0: a count is negative", [](Plan &p) { p.stages[0].nodes = -1; }},
                  {"tie 0 (embedding.weight): expected a name and at least two",
                   [](Plan &p) {
                     p.ties[0].stages = {2, 0};
                   }},
                  {"tie 0 (embedding.weight): owner: expected its first stage, 0, got 1",
                   [](Plan &p) { p.ties[0].owner = 1; }},
                  {"tie 1 (shared): stage 1 has no attribute of it",
                   [](Plan &p) {
                     p.ties[1].stages = {0, 1, 2};
                   }},
                  {"stage 2: expected head.weight to be held by the stage",
                   [](Plan &p) { p.ties[0].mode = Tie::Mode::Replicate; }},
                  {"stage 2: expected shared to be sent on a channel",
                   [](Plan &p) { p.ties[1].mode = Tie::Mode::Transmit; }},
                  {"obligation 0 (recompute aten::size 1 times in stage 9): expected a stage below",
                   [](Plan &p) { p.obligations[0].stage = 9; }},
                  {"skips a stage, but the plan has chain set", [](Plan &p) { p.chain = true; }},
                  {"method: expected the name of a method, got \"\"",
                   [](Plan &p) { p.signature.method = ""; }},
                  {"model input 0 (x): batch dimension 1: expected size B, got 3",
                   [](Plan &p) { p.signature.inputs[0].batchDim = 1; }},
                  {"model input 0 (x): batch dimension: expected one below 4, got 9",
                   [](Plan &p) { p.signature.inputs[0].batchDim = 9; }},
                  {"model input 0 (x): size B: expected sizes without B where no dimension is cut",
                   [](Plan &p) { p.signature.inputs[0].batchDim.reset(); }},
                  {"model input 1 (n): type int is not a tensor, but a tensor is described or cut",
                   [](Plan &p) { p.signature.inputs[1].batchDim = 0; }},
                  {"model input 1 (n): default: expected a value of type int, got null",
                   [](Plan &p) { p.signature.inputs[1].defaultValue = nullptr; }},
                  {"model input 2 (scale): default: expected a value of type float, got 1",
                   [](Plan &p) { p.signature.inputs[2].defaultValue = 1; }},
                  {"output scores.logits: merge rule: expected concat along 1 as its sizes say, "
                   "got "
                   "concat along 99",
                   [](Plan &p) { p.signature.leaves[0].merge.dim = 99; }},
                  {"output scores.logits: merge rule: expected concat along 1 as its sizes say, "
                   "got list",
                   [](Plan &p) {
                     p.signature.leaves[0].merge = {MergeRule::Kind::List, 0};
                   }},
                  {"output scores.more.0: type int is not a tensor, but a tensor is described or "
                   "joined",
                   [](Plan &p) { p.signature.leaves[1].merge.kind = MergeRule::Kind::Concat; }},
                  {"output scores.logits: bytes: expected 48 as its sizes and dtype say, got 49",
                   [](Plan &p) { p.signature.leaves[0].tensor.bytes = 49; }},
                  {"output scores.logits: bytes: expected -1 as its sizes and dtype say, got 48",
                   [](Plan &p) { p.signature.leaves[0].tensor.shape[0].constant = INT64_MAX; }},
                  {"output scores.logits: dtype: expected a dtype of PyTorch, got float33",
                   [](Plan &p) { p.signature.leaves[0].tensor.dtype = "float33"; }},
                  {"output scores.logits: tensor: expected nothing where nothing is known",
                   [](Plan &p) { p.signature.leaves[0].tensor.known = false; }},
                  {"output scores.logits: requires_grad: expected false for dtype int32, got true",
                   [](Plan &p) { p.signature.leaves[0].tensor.dtype = "int32"; }},
                  {"output tree: dict with the type name Point: only a tuple has one",
                   [](Plan &p) { p.signature.outputs.children[0].typeName = "Point"; }},
                  {"stage 0, input 0 (y): name: expected x as model input 0",
                   [](Plan &p) { p.stages[0].inputs[0].name = "y"; }},
                  {"stage 0, input 0 (x): type: expected Tensor as model input 0, got int",
                   [](Plan &p) { p.stages[0].inputs[0].type = "int"; }},
                  {"stage 0, input 1 (x): model input 0 is given to the stage twice",
                   [](Plan &p) { p.stages[0].inputs.push_back(p.stages[0].inputs[0]); }},
                  {"stage 1, input 0 (h): name: expected c0 as channel 0",
                   [](Plan &p) { p.stages[1].inputs[0].name = "h"; }},
                  {"stage 0, output 0 (h): name: expected c0 as channel 0",
                   [](Plan &p) { p.stages[0].outputs[0].name = "h"; }},
                  {"stage 2, output 1 (n): name: expected count as the attribute",
                   [](Plan &p) { p.stages[2].outputs[1].name = "n"; }},
                  {"type: expected float as output scores.more.0, got int",
                   [](Plan &p) { p.signature.leaves[1].type = "float"; }},
                  {"channel 3 (w0): type: expected Tensor for a weight, got int",
                   [](Plan &p) { p.channels[3].type = "int"; }},
                  {"channel 3 (w0): expected a weight of constant sizes, got 2*B",
                   [](Plan &p) {
                     p.requiredFeatures = {"described-weights"};
                     p.channels[3].tensor = p.signature.leaves[0].tensor;
                   }},
                  {"stage 0: parameter bytes: expected 16, the sum of its parameters, got 17",
                   [](Plan &p) { p.stages[0].parameterBytes = 17; }},
                  {"stage 2: state writes: expected [count], its attributes that are written, got "
                   "[]",
                   [](Plan &p) { p.stages[2].effects.stateWrites.clear(); }},
                  {"stage 2: random operators: expected 1 next, in the order of the source, got 2",
                   [](Plan &p) {
                     p.stages[2].effects.randomOps = {2, 1};
                   }},
                  {"stage 0, attribute shared: kind: expected one that a stage file holds, got "
                   "constant",
                   [](Plan &p) { p.stages[0].attributes[1].kind = AttributeKind::Constant; }},
                  {"tie 1 (shared): owner: expected its first stage, 0, got 2",
                   [](Plan &p) { p.ties[1].owner = 2; }},
                  {"tie 2 (shared): shared is tied twice",
                   [](Plan &p) { p.ties.push_back(p.ties[1]); }},
                  {"tie 1 (shared): no stage has an attribute other",
                   [](Plan &p) { p.ties[1].names.push_back("other"); }},
                  {"tie 0 (embedding.weight): names: expected alias.weight among them",
                   [](Plan &p) {
                     p.ties[0].names = {"embedding.weight", "head.weight"};
                   }},
                  {"stage 2, attribute shared: stage 0 has it too, but no tie names it",
                   [](Plan &p) { p.ties.pop_back(); }},
                  {"stage 2, attribute head.weight: is sent by channel 3 (w0), but no tie names it",
                   [](Plan &p) { p.ties.erase(p.ties.begin()); }},
                  {"stage 2, attribute head.weight: bytes: expected 8 as its owner has it, got 9",
                   [](Plan &p) { p.stages[2].attributes[0].bytes = 9; }},
                  {"stage 2, attribute head.weight: requires_grad: expected true as its owner has "
                   "it, got false",
                   [](Plan &p) { p.stages[2].attributes[0].requiresGrad = false; }},
                  {"obligation 1 (recompute aten::size 1 times in stage 1): is there twice",
                   [](Plan &p) { p.obligations.push_back(p.obligations[0]); }},
                  {"obligation 0 (fact input z has rank 2): expected an argument of the model, got "
                   "z",
                   [](Plan &p) { p.obligations = {Obligation::fact("input z", "rank", "2")}; }},
                  {"obligation 0 (fact input x has value None): expected type NoneType as the "
                   "signature's, got Tensor",
                   [](Plan &p) {
                     p.requiredFeatures = {"absent-arguments"};
                     p.obligations = {Obligation::fact("input x", "value", "None")};
                   }},
                  {"obligation 1 (reorder operators 2 0-1): expected one order of the operators, "
                   "got a second one",
                   [](Plan &p) {
                     p.requiredFeatures = {"moved-operators"};
                     p.obligations = {Obligation::reorder({1, 0}), Obligation::reorder({2, 0, 1})};
                   }},
              };
  ASSERT_TRUE(succeeded(verify(richPlan())));
  for (const Case &c : cases) {
    Plan plan = richPlan();
    c.edit(plan);
    EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, c.message)) << c.message;
  }
}

/// As torchgpipe's check of skips does.
TEST(PlanVerifier, FaultsOfChannelsAreNamedAllAtOnce) {
  Plan plan = richPlan();
  for (size_t c : {0, 2})
    plan.channels[c].skip = !plan.channels[c].skip;
  for (const char *part :
       {"2 faults: channel 0 (c0): skip: expected ", "; channel 2 (c2): skip: expected "})
    EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, part)) << part;
}

/// Copies of one weight may have different names, which only the tie and the parameter know.
TEST(PlanVerifier, AReplicatedTieThatIsLeftOutIsFound) {
  Plan plan = trainedPlan();
  plan.stages[2].attributes[1].name = "last";
  plan.ties[1].names = {"shared", "last"};
  plan.training->parameters[1].otherNames = {"last"};
  ASSERT_TRUE(succeeded(verify(plan)));
  Plan untied = plan;
  untied.ties.pop_back();
  EXPECT_TRUE(failedWith(verify(untied), ExitCode::BadArtifact,
                         "training: parameter shared: expected a tie of stages 0, 2"));
  Plan cut = plan;
  cut.training->parameters[1].uses.erase(cut.training->parameters[1].uses.begin());
  EXPECT_TRUE(failedWith(verify(cut), ExitCode::BadArtifact,
                         "uses: expected one of stage 2, which has it as last, got none"));
}

TEST(PlanVerifier, FaultsOfEveryKindAreNamedTogether) {
  Plan plan = trainedPlan();
  plan.channels[0].skip = true;
  plan.stages[0].parameterBytes = 17;
  plan.ties[1].owner = 2;
  plan.training->parameters[0].shape = {1};
  EXPECT_TRUE(failedWith(
      verify(plan), ExitCode::BadArtifact,
      "4 faults: stage 0: parameter bytes: expected 16, the sum of its parameters, got 17; channel "
      "0 (c0): skip: expected false, got true; tie 1 (shared): owner: expected its first stage, 0, "
      "got 2; training: parameter embedding.weight: expected 1 strides, got 2"));
}

/// A parameter that the stages' files cannot be asked for is not looked up.
TEST(PlanVerifier, IndicesThatDoNotExistAreNotFollowed) {
  Plan plan = trainedPlan();
  plan.channels[0].skip = true;
  plan.stages[2].attributes[0].channel = 9;
  plan.stages[1].outputs[1].leaves = {7};
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "4 faults: "));
  plan = trainedPlan();
  plan.stages[2].attributes[0].channel = 0; // of an activation
  EXPECT_TRUE(failedWith(verify(plan), ExitCode::BadArtifact, "does not lead here"));
}

TEST(Obligation, roundTrips) {
  const Obligation all[] = {
      Obligation::recompute("aten::size", 2, 3), Obligation::fact("input x", "rank", "2"),
      Obligation::reorder({0, 4, 5, 1, 2, 3}),
      Obligation::fact("result 0 of aten::add in it has rank", "dtype", "float32"),
      Obligation::fact("input targets", "value", "None")};
  EXPECT_EQ(toString(all[2]), "reorder operators 0 4-5 1-3");
  EXPECT_EQ(orderOf(all), (std::vector<size_t>{0, 4, 5, 1, 2, 3}));
  EXPECT_EQ(orderOf({all[0]}), std::nullopt);
  for (const Obligation &obligation : all) {
    llvm::Expected<Obligation> back = parseObligation(toString(obligation));
    ASSERT_TRUE(succeeded(back)) << toString(obligation);
    EXPECT_EQ(*back, obligation);
  }
  for (const char *text :
       {"", "recompute", "recompute aten::size", "believe x has rank 2", "reorder operators",
        "reorder operators 0-2", "reorder operators 0 3 1", "reorder operators 1 1",
        "reorder operators 1 00", "reorder operators 3-3 0-2", "reorder operators 2-3 0 1",
        "reorder operators 1-18446744073709551615 0", "recompute aten::size 0 times in stage 1",
        "recompute aten::size 01 times in stage 1", "fact x has colour red", "fact x has rank two",
        "fact  has rank 2", "fact x has dtype a b", "fact x has value 2"})
    EXPECT_TRUE(failedWith(parseObligation(text), ExitCode::BadArtifact, "expected a form like"))
        << text;
}

TEST(PlanVerifier, factsAreWhatTheRuntimeChecks) {
  const InputSpec x = richPlan().signature.inputs[0];
  auto withFact = [&](const std::string &of, const char *property, const std::string &value) {
    Plan plan = richPlan();
    for (InputSpec &input : plan.signature.inputs)
      if (input.name == x.name)
        input.tensor = x.tensor;
    plan.obligations = {Obligation::fact(of, property, value)};
    return plan;
  };
  const std::string name = "input " + x.name, rank = std::to_string(x.tensor.shape.size());
  EXPECT_TRUE(succeeded(verify(withFact(name, "rank", rank))));
  EXPECT_TRUE(failedWith(verify(withFact(name, "rank", "9")), ExitCode::BadArtifact,
                         "expected rank " + rank));
  EXPECT_TRUE(failedWith(verify(withFact(name, "dtype", "int8")), ExitCode::BadArtifact,
                         "expected dtype " + x.tensor.dtype));
  Plan unknown = withFact("result 0 of aten::relu", "rank", "2");
  EXPECT_TRUE(succeeded(verify(unknown)));
  unknown.signature.inputs[0].tensor = {};
  EXPECT_TRUE(
      failedWith(verify(unknown), ExitCode::BadArtifact, "expected a known dtype and rank"));
}

TEST(PlanVerifier, chainAllowsOnlyNeighbours) {
  Plan plan = chainPlan({0, 1, 2});
  plan.chain = true;
  EXPECT_TRUE(succeeded(verify(plan)));
  Plan reads = plan;
  reads.stages[1].inputs.push_back({"x", "Tensor", StageInput::Kind::UserInput, 0});
  EXPECT_TRUE(failedWith(verify(reads), ExitCode::BadArtifact,
                         "stage 1, input 1 (x): reads a model input"));
  Plan makes = plan;
  makes.stages[2].outputs[0].leaves.clear();
  makes.stages[1].outputs[0].leaves = {0};
  EXPECT_TRUE(failedWith(verify(makes), ExitCode::BadArtifact,
                         "stage 1, output 0 (c1): is a model output"));
}

} // namespace
} // namespace pipec

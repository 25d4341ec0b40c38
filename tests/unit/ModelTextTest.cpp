// The text form of models: what is printed is what is read, to the last field, constant and digest.
#include "ir/text/ModelText.h"

#include "ir/TensorBytes.h"
#include "ir/text/GraphText.h"
#include "ir/text/TensorText.h"
#include "ir/text/ValueText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

#include <limits>

namespace pipec {
namespace {

const char *const kModel = R"(
# RUN: comments are skipped
model method=forward mode=train {
  source "sha256:0123"
  batch size=4 fixed
  input x : Tensor batch_dim=0 written tensor=float32[B,2*B+1,?] strides=[8,1,?] requires_grad bytes=64
  input n : Optional[List[int]] default=[1,2] given_whole
  outputs (0, [1], {"a b": 2}, Point(x=3, y=4))
  output 0 : Tensor merge=concat:1 tensor=float32[B,4] strides=[4,1] bytes=32
  output 1 : Tensor merge=same
  output 2 : Dict[str, Tensor] merge=list
  output 3 : Tensor merge=mean
  output 4 : int merge=list
  attribute enc.weight parameter float32[4,8] strides=[1,4] requires_grad data=seed(7) also=[dec.weight,a.b]
  attribute bn.mean buffer float32[3] written storage=9 data=bytes(0000803f0000004000004040)
  attribute bn.view buffer float32[1] storage=9 offset=2 data=bytes(00004040)
  attribute big constant int64[64,64]
  attribute scale value float value="0.5"
  attribute names value List[str] value=["a","b c"]
  state bn.mean
  costs [10/8,3/0]
  obligation "recompute aten::size 2 times in stage 1"
  graph(%x : Tensor, %n : int[]?, %enc_weight : Tensor, %m : Tensor, %v : Tensor, %big : Tensor, %scale : float, %names : str[]):
    %k : int = prim::Constant[value=1]()
    # a comment inside
    %y : Float(*, 4, requires_grad=1, device=cpu) = aten::matmul(%x, %enc_weight)
    %b : bool = aten::Bool(%m)
    %z : Tensor = prim::If(%b)
      block0():
        %a.1 : Tensor = aten::add(%y, %y, %k)
        -> (%a.1)
      block1():
        -> (%y)
    %d : Dict(str, Tensor) = prim::DictConstruct()
    return (%y, %z, %d, %z, %k, %m)
}
)";

std::string textOf(const ParsedModel &parsed) {
  TextOptions options;
  options.notes = &parsed.notes;
  options.costs = &parsed.costs;
  llvm::Expected<std::string> text = toText(parsed.model, options);
  EXPECT_TRUE(succeeded(text));
  return text ? *text : "";
}

/// Reads, prints, reads, prints: both prints must agree. Returns the print.
std::string roundTrip(llvm::StringRef text) {
  llvm::Expected<std::vector<ParsedModel>> first = parseModels(text);
  EXPECT_TRUE(succeeded(first));
  if (!first || first->empty())
    return "";
  const std::string once = textOf(first->front());
  llvm::Expected<std::vector<ParsedModel>> second = parseModels(once);
  EXPECT_TRUE(succeeded(second)) << once;
  EXPECT_EQ(once, second ? textOf(second->front()) : "");
  return once;
}

std::string inModel(const std::string &graph) { return "model {\n" + graph + "\n}\n"; }

TEST(ModelText, RoundTripKeepsEveryField) {
  llvm::Expected<Model> model = parseModel(kModel);
  ASSERT_TRUE(succeeded(model));
  const std::string text = roundTrip(kModel);
  llvm::Expected<Model> again = parseModel(text);
  ASSERT_TRUE(succeeded(again));

  EXPECT_EQ(model->signature, again->signature);
  EXPECT_EQ(again->mode, Mode::Train);
  EXPECT_EQ(again->sourceDigest, "sha256:0123");
  EXPECT_EQ(again->stateOutputs, std::vector<size_t>{1});
  llvm::Expected<std::vector<ParsedModel>> parsed = parseModels(text);
  ASSERT_TRUE(succeeded(parsed));
  const std::vector<NodeCost> &costs = parsed->front().costs;
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].flops, 10);
  EXPECT_EQ(costs[0].outputBytes, 8);
  ASSERT_EQ(again->obligations.size(), 1u);
  EXPECT_EQ(toString(again->obligations[0]), "recompute aten::size 2 times in stage 1");
  ASSERT_EQ(again->attributes.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const Attribute &a = model->attributes[i], &b = again->attributes[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.otherNames, b.otherNames);
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.storage, b.storage);
    EXPECT_EQ(a.requiresGrad, b.requiresGrad);
    EXPECT_EQ(a.written, b.written);
    if (a.value.isTensor()) {
      EXPECT_EQ(tensorDigest(a.value.toTensor()), tensorDigest(b.value.toTensor()));
      EXPECT_EQ(a.value.toTensor().strides(), b.value.toTensor().strides());
      EXPECT_EQ(a.value.toTensor().requires_grad(), b.value.toTensor().requires_grad());
    }
  }
}

TEST(ModelText, SignatureIsReadAsWritten) {
  llvm::Expected<Model> model = parseModel(kModel);
  ASSERT_TRUE(succeeded(model));
  const Signature &signature = model->signature;
  ASSERT_EQ(signature.inputs.size(), 2u);
  EXPECT_TRUE(signature.inputs[0].written);
  EXPECT_FALSE(signature.inputs[0].givenWhole);
  EXPECT_TRUE(signature.inputs[1].givenWhole);
  EXPECT_EQ(signature.inputs[0].batchDim, 0);
  EXPECT_EQ(signature.inputs[0].tensor.shape[1], (Dim{2, 1, false}));
  EXPECT_TRUE(signature.inputs[0].tensor.shape[2].dynamic);
  EXPECT_EQ(signature.inputs[0].tensor.bytes, 64);
  EXPECT_EQ(signature.inputs[1].type, "Optional[List[int]]");
  EXPECT_EQ(*signature.inputs[1].defaultValue, llvm::json::Value(llvm::json::Array{1, 2}));
  EXPECT_FALSE(signature.batchSymbolic);
  ASSERT_EQ(signature.outputs.children.size(), 4u);
  EXPECT_EQ(signature.outputs.children[2].keys, std::vector<std::string>{"a b"});
  EXPECT_EQ(signature.outputs.children[3].typeName, "Point");
  EXPECT_EQ(signature.outputs.children[3].keys, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(signature.leaves[0].merge, (MergeRule{MergeRule::Kind::Concat, 1}));
  EXPECT_EQ(signature.leaves[3].merge.kind, MergeRule::Kind::Mean);
}

TEST(ModelText, OneStorageIsSharedMemory) {
  llvm::Expected<Model> model = parseModel(kModel);
  ASSERT_TRUE(succeeded(model));
  EXPECT_EQ(model->attributes[1].storage, 1);
  EXPECT_EQ(model->attributes[2].storage, 1);
  EXPECT_EQ(model->attributes[3].storage, 2);
  at::Tensor mean = model->attributes[1].value.toTensor();
  const at::Tensor view = model->attributes[2].value.toTensor();
  EXPECT_EQ(view.item<float>(), 3.0f);
  mean.fill_(9);
  EXPECT_EQ(view.item<float>(), 9.0f);
}

TEST(ModelText, SeedGivesTheSameBitsAndSurvivesUntilTheWeightChanges) {
  llvm::Expected<std::vector<ParsedModel>> parsed = parseModels(kModel);
  ASSERT_TRUE(succeeded(parsed));
  EXPECT_NE(textOf(parsed->front()).find("data=seed(7)"), std::string::npos);
  std::get<Model>(parsed->front().model).attributes[0].value.toTensor().detach().zero_();
  EXPECT_EQ(textOf(parsed->front()).find("data=seed(7)"), std::string::npos);
}

TEST(ModelText, StrippedWeightsKeepTheirRecordedDigest) {
  const std::string text =
      roundTrip("model {\n  attribute w parameter float32[4] sha256=abcd data=none\n"
                "  graph(%x : Tensor, %w : Tensor):\n    return (%x)\n}\n");
  EXPECT_NE(text.find("sha256=abcd data=none"), std::string::npos) << text;
}

TEST(ModelText, LargeWeightsGoToADirectory) {
  llvm::Expected<std::vector<ParsedModel>> parsed =
      parseModels("model {\n  attribute w parameter float32[100,3] data=seed(1)\n  graph(%x : "
                  "Tensor, %w : Tensor):\n    return (%x)\n}\n");
  ASSERT_TRUE(succeeded(parsed));
  llvm::SmallString<128> directory;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("pipec-text", directory));
  TextOptions options;
  options.data = TextOptions::Data::Directory;
  options.directory = directory.str().str();
  llvm::Expected<std::string> text = toText(parsed->front().model, options);
  ASSERT_TRUE(succeeded(text));
  llvm::Expected<Model> again = parseModel(*text, options.directory);
  ASSERT_TRUE(succeeded(again));
  EXPECT_EQ(tensorDigest(again->attributes[0].value.toTensor()),
            tensorDigest(std::get<Model>(parsed->front().model).attributes[0].value.toTensor()));
  EXPECT_TRUE(failedWith(parseModel(*text, "/nowhere"), ExitCode::IO, "cannot read"));
  llvm::sys::fs::remove_directories(directory);
}

/// A list as nn.LSTM holds it, and every other container that may hold a tensor.
const char *const kContainers = R"text(model {
  attribute w parameter float32[2,3] requires_grad storage=4 data=seed(1)
  attribute flat value List[Tensor] value=[{"tensor":"float32[2,3]","requires_grad":true,"storage":4,"data":"none"},{"tensor":"float32[3]","storage":4,"offset":3},{"tensor":"float32[2,2]","strides":[1,2],"data":"seed(2)"}]
  attribute pair value Tuple[Tensor,None,str] value=[{"tensor":"int64[1]","storage":7,"data":"bytes(0500000000000000)"},null,"a"]
  attribute named value Dict[str,List[Tensor]] value=[["k",[{"tensor":"int64[1]","storage":7}]]]
  attribute maybe value List[Optional[Tensor]] value=[null,{"tensor":"float32[100]","sha256":"abcd"}]
  attribute nothing value Tensor value={"tensor":null}
  attribute none value None value=null
  graph(%x : Tensor, %w : Tensor, %a : Tensor[], %b : (Tensor, NoneType, str), %c : Dict(str, Tensor[]), %d : Tensor?[], %e : Tensor, %f : NoneType):
    return (%x)
}
)text";

TEST(ModelText, TensorsInsideValuesSurvive) {
  const std::string text = roundTrip(kContainers);
  for (const char *kept :
       {"\"requires_grad\":true,", "\"offset\":3", "\"strides\":[1,2]", "\"data\":\"seed(2)\"",
        "Tuple[Tensor, None, str] value=[{", "{\"tensor\":null}", "\"sha256\":\"abcd\"",
        "value Dict[str, List[Tensor]] value=[[\"k\",[{"})
    EXPECT_NE(text.find(kept), std::string::npos) << kept << "\n" << text;
}

TEST(ModelText, TensorsInsideValuesShareMemoryWithTheOthers) {
  llvm::Expected<Model> model = parseModel(kContainers);
  ASSERT_TRUE(succeeded(model));
  const at::Tensor weight = model->attributes[0].value.toTensor().detach();
  const std::vector<c10::IValue> flat = model->attributes[1].value.toListRef().vec();
  EXPECT_EQ(flat[0].toTensor().const_data_ptr(), weight.const_data_ptr());
  EXPECT_TRUE(flat[0].toTensor().requires_grad());
  EXPECT_TRUE(flat[1].toTensor().equal(weight[1]));
  EXPECT_FALSE(flat[2].toTensor().is_alias_of(weight));
  const c10::IValue pair = model->attributes[2].value;
  const at::Tensor five = pair.toTupleRef().elements()[0].toTensor();
  EXPECT_EQ(five.item<int64_t>(), 5);
  const c10::IValue inDict = model->attributes[3].value.toGenericDict().at("k");
  EXPECT_EQ(inDict.toListRef()[0].toTensor().const_data_ptr(), five.const_data_ptr());
  EXPECT_FALSE(model->attributes[5].value.toTensor().defined());
}

TEST(ModelText, TensorsInsideValuesAreRefusedByName) {
  const auto fails = [](const std::string &tensor, const std::string &part) {
    return failedWith(parseModels("model {\n  attribute l value List[Tensor] value=[" + tensor +
                                  "]\n  graph(%x : Tensor, %l : Tensor[]):\n    return (%x)\n}\n"),
                      ExitCode::Unreadable, part);
  };
  EXPECT_TRUE(fails("null", "line 2: attribute l: expected a tensor like"));
  EXPECT_TRUE(fails("{\"tensor\":\"float32\"}", "expected a tensor like float32[8,16]"));
  EXPECT_TRUE(fails("{\"tensor\":\"float32[2]\",\"colour\":1}", "a tensor has no key colour"));
  EXPECT_TRUE(fails("{\"tensor\":\"float32[2]\",\"strides\":[1,1]}", "expected 1 strides"));
  EXPECT_TRUE(fails("{\"tensor\":\"float32[2]\",\"data\":\"bytes(00)\"}",
                    "attribute l[0]: float32[2]: expected 8 bytes, got 1"));
}

TEST(ModelText, ConstantsThatTheParserDoesNotReadSurvive) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string text = roundTrip(inModel(R"(  graph(%x : Tensor):
    %0 : float = prim::Constant[json="\"inf\""]()
    %1 : float = prim::Constant[json="\"-inf\""]()
    %2 : float = prim::Constant[json="\"nan\""]()
    %3 : float = prim::Constant[value=-1e-05]()
    %4 : float = prim::Constant[value=1e300]()
    %5 : int = prim::Constant[value=-9223372036854775808]()
    %6 : Device = prim::Constant[value="cuda:1"]()
    %7 : str = prim::Constant[value="tab\tquote\"back\\slash\nline # no comment"]()
    %8 : str = prim::Constant[json="\"\\u0001 \\u00e9\""]()
    %9 : NoneType = prim::Constant()
    %10 : Tensor? = prim::Constant()
    %11 : int[] = prim::Constant[json="[]"]()
    %12 : bool[] = prim::Constant[json="[true,false]"]()
    %13 : float[] = prim::Constant[json="[\"inf\",\"0.1\"]"]()
    %14 : (int, str) = prim::Constant[json="[1,\"a\"]"]()
    %15 : complex = prim::Constant[json="[\"1.0\",\"-2.5\"]"]()
    %16 : Dict(str, int) = prim::Constant[json="[[\"a\",1]]"]()
    %17 : Tensor = prim::Constant[json="{\"bytes\":\"0000803f\",\"strides\":[1],\"tensor\":\"float32[1]\"}"]()
    %18 : int[] = prim::Constant[value=[3, 4]]()
    %19 : bool = prim::Constant[value=1]()
    %20 : float = prim::Constant[value=-0.0]()
    return (%x))"));
  EXPECT_NE(text.find("%0 : float = prim::Constant[json=\"\\\"inf\\\"\"]()"), std::string::npos)
      << text;
  EXPECT_EQ(floatText(-inf), "-inf");
  EXPECT_EQ(floatText(1), "1.0");
  EXPECT_EQ(floatText(0.1), "0.1");
  for (const char *kept : {"value=-1e-05]", "value=1e+300]", "value=-9223372036854775808]",
                           "[\\\"inf\\\",\\\"0.1\\\"]", "[\\\"1.0\\\",\\\"-2.5\\\"]",
                           "\\\"bytes\\\":\\\"0000803f\\\"", "value=-0.0]"})
    EXPECT_NE(text.find(kept), std::string::npos) << kept << "\n" << text;
}

TEST(ModelText, PrintIsCanonical) {
  const std::string text = roundTrip(inModel(R"(  graph(%x.1 : Tensor, %x_1 : Tensor):
    %zz : Tensor = aten::relu(%x_1)
    return (%zz))"));
  EXPECT_NE(text.find("%0 : Tensor = aten::relu(%x_1_2)"), std::string::npos) << text;
}

TEST(ModelText, ModulePathsAreReadAndPrintedOnRequest) {
  llvm::Expected<std::vector<ParsedModel>> parsed = parseModels(inModel(R"(  graph(%x : Tensor):
    %1 : Tensor = aten::relu(%x)  # in enc.fc#2
    %2 : Tensor = aten::neg(%1)
    return (%2))"));
  ASSERT_TRUE(succeeded(parsed));
  TextOptions options;
  options.scopes = true;
  llvm::Expected<std::string> text = toText(parsed->front().model, options);
  ASSERT_TRUE(succeeded(text));
  EXPECT_NE(text->find("aten::relu(%x)  # in enc.fc#2\n"), std::string::npos) << *text;
  EXPECT_NE(text->find("aten::neg(%0)\n"), std::string::npos) << *text;
}

TEST(ModelText, SignatureComesFromTheGraphWhereTheTextHasNone) {
  llvm::Expected<Model> model =
      parseModel(inModel("  graph(%x : Tensor, %n : int):\n    return (%x, %n)"));
  ASSERT_TRUE(succeeded(model));
  ASSERT_EQ(model->signature.inputs.size(), 2u);
  EXPECT_EQ(model->signature.inputs[1].type, "int");
  EXPECT_EQ(model->signature.outputs.kind, OutputTree::Kind::Tuple);
  EXPECT_EQ(model->signature.leaves.size(), 2u);
}

TEST(ModelText, StagedModelRoundTrip) {
  const char *const text = R"(staged method=forward mode=train {
  input x : Tensor batch_dim=0
  outputs 0
  output 0 : Tensor merge=concat:0
  attribute w parameter float32[2,2] requires_grad storage=0 data=seed(3)
  attribute s buffer int64[] written storage=1 data=bytes(0100000000000000)
  stage 0 file=stage-0.pt first=enc last=enc.fc nodes=2 parameter_bytes=16 cost_flops=10 rank=0 weights_out=[1] {
    input x : Tensor user=0
    output h : Tensor channels=[0]
    uses w parameter uses=1 bytes=16 requires_grad also=[v]
    effects random=[0,3] writes=[s] prints raises
    graph(%x : Tensor, %w : Tensor):
      %2 : Tensor = aten::matmul(%x, %w)
      return (%2)
  }
  stage 1 file=stage-1.pt rank=1 {
    input h : Tensor channel=0
    output y : Tensor leaves=[0]
    output s : Tensor state=1
    uses w parameter uses=1 bytes=16 requires_grad channel=1
    uses s buffer uses=1 bytes=8 written
    graph(%h : Tensor, %w : Tensor, %s : Tensor):
      %2 : Tensor = aten::matmul(%h, %w)
      return (%2, %s)
  }
  channel h 0:0 -> 1:0 : Tensor tensor=float32[B,2] strides=[2,1] requires_grad bytes=8
  channel w 0:0 -> 1:0 : Tensor weight
  tie [w,"v w"] transmit owner=0 stages=[0,1]
}
)";
  llvm::Expected<StagedModel> model = parseStagedModel(text);
  ASSERT_TRUE(succeeded(model));
  const std::string once = roundTrip(text);
  llvm::Expected<StagedModel> again = parseStagedModel(once);
  ASSERT_TRUE(succeeded(again));
  ASSERT_EQ(again->stages.size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(model->stages[i].plan, again->stages[i].plan);
  EXPECT_EQ(model->channels, again->channels);
  EXPECT_EQ(model->ties, again->ties);
  EXPECT_EQ(again->ties[0].names[1], "v w");
  EXPECT_EQ(again->stages[0].plan.effects.randomOps, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(again->stages[1].plan.outputs[1].state, 1u);
  EXPECT_TRUE(again->channels[0].tensor.requiresGrad);
}

TEST(ModelText, SeveralModelsInOneText) {
  const std::string one = inModel("  graph(%x : Tensor):\n    return (%x)");
  llvm::Expected<std::vector<ParsedModel>> models = parseModels(one + "# -----\n" + one);
  ASSERT_TRUE(succeeded(models));
  EXPECT_EQ(models->size(), 2u);
  EXPECT_TRUE(
      failedWith(parseModel(one + "# -----\n" + one), ExitCode::Unreadable, "expected one model"));
}

TEST(ModelText, ErrorsNameLineAndColumn) {
  const auto fails = [](const std::string &text, const std::string &part,
                        ExitCode code = ExitCode::Unreadable) {
    return failedWith(parseModels(text), code, part);
  };
  const std::string graph = "  graph(%x : Tensor):\n    return (%x)\n}\n";
  EXPECT_TRUE(fails("modle {\n}", "line 1, column 1: expected model or staged, got modle"));
  EXPECT_TRUE(fails("model colour=red {\n" + graph, "line 1, column 7: unknown key colour"));
  EXPECT_TRUE(fails("model {\n  input x : Tensor batch=0\n" + graph,
                    "line 2, column 20: unknown key batch"));
  EXPECT_TRUE(fails("model {\n  input x : Tensor batch_dim=a\n" + graph,
                    "line 2, column 20: batch_dim: expected an integer, got a"));
  EXPECT_TRUE(
      fails("model {\n  wight w\n" + graph, "line 2, column 1: a model has no entity wight"));
  EXPECT_TRUE(fails("model {\n  input x\n" + graph, "expected :, got the end of the line"));
  EXPECT_TRUE(fails("model {\n}\n", "the model has no graph"));
  EXPECT_TRUE(
      fails("model {\n  graph(%x : Tensor):\n", "expected return (...) at the end of the graph"));
  EXPECT_TRUE(fails("model {\n  graph(%x : Tensor):\n    return (%x)\n",
                    "expected } at the end of the model"));
  EXPECT_TRUE(fails("model {\n  state s\n" + graph,
                    "line 2, column 1: state s: there is no such attribute"));
  EXPECT_TRUE(fails("model {\n  output 1 : Tensor\n" + graph, "expected output 0"));
  EXPECT_TRUE(fails("model {\n  costs [1/2,3]\n" + graph, "costs: expected FLOPS/BYTES, got 3"));
  EXPECT_TRUE(
      fails("model {\n  graph(%x : Tensor):\n    %1 : Tensor = aten::relu(%y)\n    return (%1)\n}",
            "graph at line 2: "));
  EXPECT_TRUE(fails("model {\n  graph(%x : __torch__.Point):\n    return (%x)\n}",
                    "line 2: type __torch__.Point is defined in the model's file",
                    ExitCode::Unsupported));
  EXPECT_TRUE(fails("model {\n  attribute o object __torch__.Foo value=object\n" + graph,
                    "an object of type __torch__.Foo has no text form", ExitCode::Unsupported));
  EXPECT_TRUE(fails("model {\n  attribute w parameter float32[2] data=bytes(00)\n" + graph,
                    "expected 8 bytes, got 1"));
  EXPECT_TRUE(fails("model {\n  attribute w parameter float32[2] data=fish\n" + graph,
                    "data: expected seed(N)"));
  EXPECT_TRUE(fails("model {\n  attribute w parameter float32[2] sha256=00 data=seed(1)\n" + graph,
                    "sha256: expected 00, got "));
  EXPECT_TRUE(fails("model {\n  attribute w parameter float32[2] data=@../x\n" + graph,
                    "expected the name of a file"));
  EXPECT_TRUE(fails("model {\n  attribute w parameter float32[2] strides=[1,1]\n" + graph,
                    "expected 1 strides"));
  EXPECT_TRUE(
      fails("model {\n  attribute w parameter float32[9223372036854775807,9] data=none\n" + graph,
            "beyond the address space"));
  EXPECT_TRUE(fails("model {\n  attribute w weight float32[2]\n" + graph, "weight"));
}

} // namespace
} // namespace pipec

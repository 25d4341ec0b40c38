// The steps between the passes, one by one: types and costs from a run, and the form that writing
// and reading leaves alone.
#include "compiler/Compiler.h"
#include "compiler/ExampleTypes.h"
#include "compiler/cost/EstimateCosts.h"
#include "compiler/cost/MeasureCosts.h"
#include "compiler/cost/OperatorTimes.h"
#include "compiler/cost/SharedTime.h"
#include "compiler/emit/RoundTrip.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Timing.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/ModelText.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/support/LongStages.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"
#include "tests/support/TestModels.h"
#include "tests/unit/TempDir.h"

#include <fmt/format.h>

#include <ATen/ops/ones.h>
#include <torch/csrc/jit/ir/ir.h>

#include <fstream>

namespace pipec {
namespace {

/// A product of known cost, a view, an elementwise operator, and a rank that hangs on the size.
const char *const kStepsModel = R"(model {
  attribute w parameter float32[8,4] requires_grad data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %none : NoneType = prim::Constant()
    %zero : int = prim::Constant[value=0]()
    %h : Tensor = aten::mm(%x, %w)
    %v : Tensor = aten::unsqueeze(%h, %zero)
    %r : Tensor = aten::relu(%v)
    %s : Tensor = aten::squeeze(%r)
    %y : Tensor = aten::neg(%s)
    return (%y)
}
)";

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(InferTypes, TypesAreThoseThatTheInputsDecide) {
  Model flat = take(parseModel(kStepsModel));
  const std::string before = structureText(flat);
  ASSERT_TRUE(succeeded(inferTypes(flat, {at::ones({2, 8})})));
  const std::string typed = structureText(flat);
  EXPECT_TRUE(contains(typed, "Float(2, 4, strides=[4, 1]")) << typed;
  EXPECT_TRUE(contains(typed, "Float(1, 2, 4, strides=[8, 4, 1]")) << typed;
  EXPECT_TRUE(contains(typed, ": Tensor = aten::squeeze(")) << typed; // other sizes, other ranks
  EXPECT_TRUE(contains(typed, ": Tensor = aten::neg(")) << typed;
  eraseTypes(flat);
  EXPECT_EQ(structureText(flat), before);
}

TEST(InferTypes, NamesTheOperatorThatFails) {
  Model flat = take(parseModel(kStepsModel));
  EXPECT_TRUE(failedWith(inferTypes(flat, {at::ones({2, 7})}), ExitCode::Usage, "aten::mm"));
}

/// Not the fault of the inputs: LibTorch has no operator for what the graph says.
TEST(InferTypes, SaysWhatLibTorchCannotRun) {
  Model flat = take(parseModel(R"(model {
  graph(%x : Tensor):
    %many : int = prim::Constant[value=2]()
    %true : bool = prim::Constant[value=1]()
    %l : int[] = prim::ListConstruct()
    prim::Loop(%many, %true)
      block0(%i : int):
        %m : int[] = aten::append(%l, %x)
        -> (%true)
    return (%x)
}
)"));
  ErrorText error = describe(inferTypes(flat, {at::ones({2, 8})}));
  EXPECT_EQ(error.code, ExitCode::Internal);
  EXPECT_TRUE(contains(error.message, "LibTorch cannot run a loop on its own")) << error.message;
  EXPECT_FALSE(contains(error.message, "within the graph")) << error.message;
}

TEST(EstimateCosts, CountsArithmeticAndBytes) {
  Model flat = take(parseModel(kStepsModel));
  const std::vector<NodeCost> costs = take(estimateCosts(flat, {at::ones({2, 8})}));
  ASSERT_EQ(costs.size(), 5u);
  const auto cost = [&](size_t i) { return costs[i]; };
  // 2*2*8*4 operations; 16 + 32 numbers read and 8 written, 4 bytes each, 4 operations a byte.
  EXPECT_EQ(cost(0).flops, 128 + 4 * 4 * (16 + 32 + 8));
  EXPECT_EQ(cost(0).outputBytes, 32);
  EXPECT_EQ(cost(1).flops, 0); // a view moves nothing
  EXPECT_EQ(cost(2).flops, 4 * 4 * (8 + 8));
  EXPECT_EQ(cost(4).outputBytes, 32);
}

/// What a CPU is slow at counts more than its bytes, and a table that is looked up in less.
TEST(EstimateCosts, KnowsPoolingTanhAndLookups) {
  Model flat = take(parseModel(R"(model {
  graph(%x : Tensor, %table : Tensor, %rows : Tensor):
    %k : int = prim::Constant[value=2]()
    %zero : int = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %no : bool = prim::Constant[value=0]()
    %kernel : int[] = prim::ListConstruct(%k)
    %stride : int[] = prim::ListConstruct(%k, %k)
    %pad : int[] = prim::ListConstruct(%zero, %zero)
    %dil : int[] = prim::ListConstruct(%one, %one)
    %p : Tensor = aten::max_pool2d(%x, %kernel, %stride, %pad, %dil, %no)
    %t : Tensor = aten::tanh(%p)
    %e : Tensor = aten::embedding(%table, %rows, %k, %no, %no)
    return (%t, %e)
}
)"));
  const std::vector<NodeCost> costs = take(
      estimateCosts(flat, {at::ones({1, 1, 8, 8}), at::ones({1000, 4}), at::ones({3}, at::kLong)}));
  std::vector<int64_t> flops;
  for (const NodeCost &cost : costs)
    if (cost.flops > 0)
      flops.push_back(cost.flops);
  EXPECT_EQ(flops, (std::vector<int64_t>{
                       16 * 4 * 300 + 4 * 4 * (64 + 16), // 16 windows of 4
                       16 * 200 + 4 * 4 * (16 + 16),     // one each
                       4 * (4 * 12 + 8 * 3 + 4 * 12)})); // 3 rows of 4, and their numbers
}

constexpr const char *kConvolutions = R"(model {
  graph(%x : Tensor, %windows : Tensor, %points : Tensor):
    %one : int = prim::Constant[value=1]()
    %two : int = prim::Constant[value=2]()
    %zero : int = prim::Constant[value=0]()
    %none : NoneType = prim::Constant()
    %ones : int[] = prim::ListConstruct(%one, %one)
    %twos : int[] = prim::ListConstruct(%two, %two)
    %zeros : int[] = prim::ListConstruct(%zero, %zero)
    %a : Tensor = aten::conv2d(%x, %windows, %none, %ones, %ones, %ones, %one)
    %b : Tensor = aten::conv2d(%a, %points, %none, %ones, %zeros, %ones, %one)
    %c : Tensor = aten::conv2d(%a, %points, %none, %twos, %zeros, %ones, %one)
    return (%b, %c)
}
)";

/// LibTorch runs convolutions of single points as matrix products, sample by sample, and others in
/// kernels of their own.
TEST(EstimateCosts, KnowsHowConvolutionsRun) {
  Model flat = take(parseModel(kConvolutions));
  const std::vector<NodeCost> costs = take(estimateCosts(
      flat, {at::ones({2, 3, 4, 4}), at::ones({5, 3, 3, 3}), at::ones({6, 5, 1, 1})}));
  std::vector<int64_t> flops;
  for (const NodeCost &cost : costs)
    if (cost.flops > 0)
      flops.push_back(cost.flops);
  // Filters of 27 and 5 weights; results of 160, 192 and 48; a byte that is moved costs 4.
  EXPECT_EQ(flops, (std::vector<int64_t>{
                       160 * (27 + 40) + 4 * 4 * (96 + 3 * 135 + 160),
                       192 * 2 * 5 + 4 * 4 * (160 + 2 * 2 * 30 + 192), // packed, of each sample
                       48 * (5 + 40) + 4 * 4 * (160 + 3 * 30 + 48)}));
}

TEST(EstimateCosts, TakeArithmeticForWhatItIsElsewhere) {
  Model flat = take(parseModel(kConvolutions));
  ClusterDevice device;
  device.kind = ClusterDevice::Kind::Cuda;
  PassContext context;
  const CostTable table = take(findCosts(
      flat, context, {at::ones({2, 3, 4, 4}), at::ones({5, 3, 3, 3}), at::ones({6, 5, 1, 1})},
      AnalyticCosts(), CompileOptions(), device, 1));
  std::vector<int64_t> times;
  for (const CostRow &row : table.rows)
    if (row.forwardNs > 0)
      times.push_back(row.forwardNs);
  EXPECT_EQ(times, (std::vector<int64_t>{(160 * 2 * 27 + 4 * 4 * (96 + 135 + 160)) / 100,
                                         (192 * 2 * 5 + 4 * 4 * (160 + 30 + 192)) / 100,
                                         (48 * 2 * 5 + 4 * 4 * (160 + 30 + 48)) / 100}));
}

TEST(EstimateCosts, AreTheSameAgainAndSurviveAsText) {
  Model flat = take(parseModel(kStepsModel)), again = take(parseModel(kStepsModel));
  const std::vector<NodeCost> costs = take(estimateCosts(flat, {at::ones({2, 8})})),
                              same = take(estimateCosts(again, {at::ones({2, 8})}));
  const std::string text = structureText(std::move(flat), &costs);
  EXPECT_EQ(text, structureText(std::move(again), &same));
  EXPECT_NE(text.find("costs ["), std::string::npos) << text;
  const ParsedModel parsed = std::move(take(parseModels(text)).front());
  EXPECT_EQ(structureText(parsed.model, &parsed.costs), text);
  flat = take(parseModel(kStepsModel));
  EXPECT_TRUE(failedWith(estimateCosts(flat, {at::ones({2, 7})}), ExitCode::Usage, "aten::mm"));
}

TEST(OperatorTimes, AreOfEveryOperatorAndBesideOtherRanks) {
  Model flat = take(parseModel(kStepsModel));
  const std::vector<c10::IValue> inputs = {at::ones({2, 8})};
  std::vector<std::string> notes;
  TimingRequest request;
  request.budgetNs = 1;
  const CostTable lonely = take(timeOperators(flat, notes, inputs, request));
  ASSERT_EQ(lonely.rows.size(), 5u);
  EXPECT_EQ(lonely.atOnce, 1);
  EXPECT_GT(lonely.rows[0].forwardNs, 0);
  EXPECT_EQ(lonely.rows[0].forwardAloneNs, 0); // there is no other case
  EXPECT_EQ(lonely.rows[0].outputBytes, 32);
  EXPECT_EQ(lonely.rows[0].weightBytes, 4 * 32);
  EXPECT_EQ(lonely.rows[2].weightBytes, 0);
  request.ranks = 2;
  const CostTable shared = take(timeOperators(flat, notes, inputs, request));
  EXPECT_LE(shared.atOnce, 2); // 1 on a machine with one core
  EXPECT_EQ(shared.rows[0].forwardAloneNs > 0, shared.atOnce == 2);
  EXPECT_TRUE(failedWith(timeOperators(flat, notes, {at::ones({2, 7})}, request), ExitCode::Usage,
                         "aten::mm"));
}

TEST(OperatorTimes, HaveABackwardWhereAskedFor) {
  Model flat = take(parseModel(kStepsModel));
  std::vector<std::string> notes;
  TimingRequest request;
  request.budgetNs = 1;
  request.backward = true;
  const CostTable table = take(timeOperators(flat, notes, {at::ones({2, 8})}, request));
  const auto row = [&](size_t i) { return table.rows[i]; };
  EXPECT_EQ(row(0).inputGradNs, 0); // of the model's input
  EXPECT_GT(row(0).weightGradNs, 0);
  EXPECT_GT(row(1).inputGradNs, 0);
  EXPECT_EQ(row(1).weightGradNs, 0);
  EXPECT_EQ(row(1).keptBytes, 0);
  EXPECT_EQ(row(2).keptBytes, 32); // relu keeps what it made
  EXPECT_EQ(row(4).keptBytes, 0);  // neg keeps nothing
  EXPECT_TRUE(table.pending);
  EXPECT_EQ(row(2).pendingBytes, 0); // no gradient of a weight needs it
}

/// A large difference is said, and why there is nothing to compare with. The table's times add up
/// to those of the whole model.
TEST(OperatorTimes, BackwardsAreHeldAgainstTheWholeModels) {
  TimingRequest request;
  request.budgetNs = 1;
  request.backward = true;
  double backwardMs = 0; // of the last table
  auto notesOf = [&](const std::string &text, const std::vector<c10::IValue> &inputs) {
    Model flat = take(parseModel(text));
    std::vector<std::string> notes;
    const CostTable table = take(timeOperators(flat, notes, inputs, request));
    const CostRow sum = table.sum(0, table.rows.size());
    backwardMs = static_cast<double>(sum.inputGradNs + sum.weightGradNs) / 1e6;
    return llvm::join(notes, "; ");
  };
  // What no result is made from has a backward of its own, and no part in the whole model's.
  std::string chain = "model {\n"
                      "  attribute w parameter float32[8,8] requires_grad data=seed(1)\n"
                      "  graph(%x : Tensor, %w : Tensor):\n"
                      "    %0 : Tensor = aten::mm(%x, %w)\n";
  for (int i = 0; i < 100; ++i)
    chain += fmt::format("    %{} : Tensor = aten::neg(%{})\n", i + 1, i);
  chain += "    return (%0)\n}\n";
  const std::string steps = notesOf(chain, {at::ones({2, 8})});
  EXPECT_NE(steps.find("the operators' backwards add up to "), std::string::npos) << steps;
  const std::string takes = " ms, the whole model's takes ";
  ASSERT_NE(steps.find(takes), std::string::npos) << steps;
  EXPECT_NEAR(std::stod(steps.substr(steps.find(takes) + takes.size())), backwardMs, 0.002)
      << steps; // one run: exact, as far as the note's digits go
  EXPECT_NE(steps.find("larger --cost-budget"), std::string::npos) << steps;
  request.mostBytes = 100; // half of what the machine has
  const std::string large = notesOf(chain, {at::ones({2, 8})});
  EXPECT_NE(
      large.find("the operators' backward times were not compared with the whole model's: it would "
                 "need 512 bytes, and this machine has 200 bytes"),
      std::string::npos)
      << large;
  request.mostBytes = 0;
  const std::string writes = notesOf(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::exp(%1)
    %3 : Tensor = aten::relu_(%2)
    return (%3)
}
)",
                                     {at::ones({2, 8})});
  EXPECT_NE(
      writes.find("the operators' backward times were not compared with the whole model's: running "
                  "the model's backward on the example inputs: "),
      std::string::npos)
      << writes;
  const std::string untrained = notesOf(R"(model {
  attribute w parameter float32[8,8] data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %1 : Tensor = aten::mm(%x, %w)
    return (%1)
}
)",
                                        {at::ones({2, 8})});
  EXPECT_EQ(untrained.find("backward"), std::string::npos) << untrained;
}

/// Arithmetic only: every operation takes a nanosecond.
CostTable countedTraining(const char *text, const std::vector<c10::IValue> &inputs) {
  Model flat = take(parseModel(text));
  CompileOptions options;
  options.mode = Mode::Train;
  ClusterDevice device;
  device.kind = ClusterDevice::Kind::Cuda;
  device.flopsPerSecond = 1'000'000'000;
  device.bytesPerSecond = int64_t(1) << 60;
  PassContext context;
  return take(findCosts(flat, context, inputs, AnalyticCosts(), options, device, 1));
}

/// Each gradient of a product is a product of the same size; the model's input needs none.
TEST(EstimateCosts, CountTheBackwardOfProducts) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[64,64] requires_grad data=seed(1)
  attribute v parameter float32[64,64] requires_grad data=seed(2)
  graph(%x : Tensor, %w : Tensor, %v : Tensor):
    %none : NoneType = prim::Constant()
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::linear(%1, %v, %none)
    %3 : Tensor = aten::matmul(%2, %1)
    return (%3)
}
)",
                                          {at::ones({64, 64})});
  const int64_t flops = 2 * 64 * 64 * 64;
  ASSERT_EQ(table.rows.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(table.rows[i].forwardNs, flops);
    // Of the first only the weight, of the last both operands.
    EXPECT_EQ(table.rows[i].inputGradNs, static_cast<int64_t>(i) * flops);
    EXPECT_EQ(table.rows[i].weightGradNs, i == 2 ? 0 : flops);
  }
}

TEST(EstimateCosts, CountTheBackwardOfConvolutions) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,3,3,3] requires_grad data=seed(1)
  attribute v parameter float32[8,8,3,3] requires_grad data=seed(2)
  graph(%x : Tensor, %w : Tensor, %v : Tensor):
    %one : int = prim::Constant[value=1]()
    %none : NoneType = prim::Constant()
    %ones : int[] = prim::Constant[value=[1, 1]]()
    %1 : Tensor = aten::conv2d(%x, %w, %none, %ones, %ones, %ones, %one)
    %2 : Tensor = aten::conv2d(%1, %v, %none, %ones, %ones, %ones, %one)
    return (%2)
}
)",
                                          {at::ones({2, 3, 16, 16})});
  const int64_t first = 2 * 27 * 2 * 8 * 256, second = 2 * 72 * 2 * 8 * 256;
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].forwardNs, first);
  EXPECT_EQ(table.rows[0].inputGradNs, 0);
  EXPECT_EQ(table.rows[0].weightGradNs, first);
  EXPECT_EQ(table.rows[1].forwardNs, second);
  EXPECT_EQ(table.rows[1].inputGradNs, second);
  EXPECT_EQ(table.rows[1].weightGradNs, second);
}

/// The scores once more and four products of them, where the forward has two.
TEST(EstimateCosts, CountTheBackwardOfAttention) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[16,16] requires_grad data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %none : NoneType = prim::Constant()
    %zero : float = prim::Constant[value=0.]()
    %no : bool = prim::Constant[value=0]()
    %1 : Tensor = aten::matmul(%x, %w)
    %2 : Tensor = aten::scaled_dot_product_attention(%1, %1, %1, %none, %zero, %no, %none, %no)
    return (%2)
}
)",
                                          {at::ones({2, 4, 32, 16})});
  const int64_t products = 2 * (2 * 2 * 4 * 32 * 32 * 16);
  EXPECT_EQ(table.rows[1].forwardNs, products);
  EXPECT_EQ(table.rows[1].inputGradNs, products * 5 / 2);
}

/// The gradients of all results come in one walk: a product that two of them are made from has one
/// for each factor.
TEST(EstimateCosts, CountTheBackwardOfSeveralResultsOnce) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[64,64] requires_grad data=seed(1)
  attribute v parameter float32[64,64] requires_grad data=seed(2)
  graph(%x : Tensor, %c : bool, %w : Tensor, %v : Tensor):
    %one : int = prim::Constant[value=1]()
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor, %3 : Tensor = prim::If(%c)
      block0():
        %4 : Tensor = aten::mm(%1, %v)
        %5 : Tensor = aten::neg(%4)
        -> (%4, %5)
      block1():
        -> (%1, %1)
    %6 : Tensor = aten::add(%2, %3, %one)
    return (%6)
}
)",
                                          {at::ones({64, 64}), true});
  const int64_t flops = 2 * 64 * 64 * 64;
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[1].forwardNs, flops);
  EXPECT_EQ(table.rows[1].inputGradNs, flops);
  EXPECT_EQ(table.rows[1].weightGradNs, flops);
}

/// Numbers have none, whatever they come of; what writes into them writes once.
TEST(EstimateCosts, KnowWhatHasNoBackward) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %zero : int = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %seven : int = prim::Constant[value=7]()
    %no : bool = prim::Constant[value=0]()
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::argmin(%1, %zero, %no)
    %3 : Tensor = aten::clamp(%2, %zero, %zero)
    %4 : Tensor = aten::add_(%3, %seven, %one)
    %5 : Tensor = aten::index_select(%1, %one, %4)
    return (%5)
}
)",
                                          {at::ones({2, 8})});
  ASSERT_EQ(table.rows.size(), 5u); // twice 7 would be no column
  EXPECT_EQ(table.rows[1].inputGradNs + table.rows[2].inputGradNs + table.rows[3].inputGradNs, 0);
  EXPECT_TRUE(table.training);
  EXPECT_EQ(table.batch, 0); // nothing says which dimension is the batch
  EXPECT_EQ(table.rows[0].trainedBytes, 256);
  EXPECT_EQ(table.rows[4].reads, (std::vector<uint32_t>{0, 3}));
}

/// A product needs what it read and the gradient of its result: nothing that only I reads, and what
/// two of them read once. A norm has one gradient for its two weights.
TEST(EstimateCosts, KnowWhatThePendingGradientsOfWeightsNeed) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  attribute g parameter float32[8] requires_grad data=seed(2)
  graph(%x : Tensor, %w : Tensor, %g : Tensor):
    %eps : float = prim::Constant[value=0.001]()
    %no : bool = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %eight : int = prim::Constant[value=8]()
    %sizes : int[] = prim::ListConstruct(%eight)
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::silu(%1)
    %3 : Tensor = aten::mm(%2, %w)
    %4 : Tensor = aten::mm(%2, %w)
    %5 : Tensor = aten::mul(%3, %4)
    %6 : Tensor = aten::layer_norm(%5, %sizes, %g, %g, %eps, %no)
    %7 : Tensor = aten::add(%6, %g, %one)
    return (%7)
}
)",
                                          {at::ones({2, 8})});
  const int64_t bytes = 64; // of every result
  EXPECT_TRUE(table.pending);
  auto rowOf = [&](const char *op, size_t number) {
    for (const CostRow &row : table.rows)
      if (row.op == op && number-- == 0)
        return row;
    ADD_FAILURE() << op;
    return CostRow();
  };
  EXPECT_EQ(rowOf("aten::mm", 0).pendingBytes, 0); // the batch is the user's
  EXPECT_EQ(rowOf("aten::silu", 0).keptBytes, bytes);
  EXPECT_EQ(rowOf("aten::silu", 0).pendingBytes, 0);
  EXPECT_EQ(rowOf("aten::mm", 1).keptBytes, bytes);
  EXPECT_EQ(rowOf("aten::mm", 1).pendingBytes, 2 * bytes);
  EXPECT_EQ(rowOf("aten::mm", 2).pendingBytes, bytes);
  EXPECT_EQ(rowOf("aten::mul", 0).keptBytes, 2 * bytes);
  EXPECT_EQ(rowOf("aten::mul", 0).pendingBytes, 0);
  EXPECT_EQ(rowOf("aten::layer_norm", 0).pendingBytes, 2 * bytes);
  EXPECT_EQ(rowOf("aten::add", 0).pendingBytes, bytes);
}

/// The batch is the user's, in any view; what an operator makes of it is there for the backward
/// alone.
TEST(EstimateCosts, KnowWhatIsKeptWithoutAGradient) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  attribute f parameter float32[8,8] data=seed(2)
  graph(%x : Tensor, %w : Tensor, %f : Tensor):
    %one : int = prim::Constant[value=1]()
    %zero : int = prim::Constant[value=0]()
    %1 : Tensor = aten::transpose(%x, %zero, %one)
    %2 : Tensor = aten::mm(%1, %w)
    %3 : Tensor = aten::tanh(%x)
    %4 : Tensor = aten::mm(%3, %w)
    %5 : Tensor = aten::mul(%2, %f)
    %6 : Tensor = aten::mul(%4, %3)
    %7 : Tensor = aten::add(%5, %6, %one)
    return (%7)
}
)",
                                          {at::ones({8, 8})});
  ASSERT_EQ(table.rows.size(), 7u);
  const int64_t bytes = 256; // of every result
  EXPECT_EQ(table.rows[1].keptBytes, 0);
  EXPECT_EQ(table.rows[2].keptBytes, 0);
  EXPECT_EQ(table.rows[3].keptBytes, bytes);
  EXPECT_EQ(table.rows[4].keptBytes, 0); // a weight, too, is there in any case
  EXPECT_EQ(table.rows[5].keptBytes, 0); // the product keeps it
}

/// A product of three dimensions saves a matrix with the memory of its input, and gives a view of
/// what it made.
TEST(EstimateCosts, KnowWhatIsKeptAsAView) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  graph(%x : Tensor, %w : Tensor):
    %none : NoneType = prim::Constant()
    %1 : Tensor = aten::linear(%x, %w, %none)
    %2 : Tensor = aten::silu(%1)
    %3 : Tensor = aten::linear(%2, %w, %none)
    return (%3)
}
)",
                                          {at::ones({4, 3, 8})});
  const int64_t bytes = 384; // of every result
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].keptBytes, 0);
  EXPECT_EQ(table.rows[1].keptBytes, bytes);
  EXPECT_EQ(table.rows[2].keptBytes, bytes);
  EXPECT_EQ(table.rows[1].pendingBytes, 0);
  EXPECT_EQ(table.rows[2].pendingBytes, 2 * bytes);
}

/// A weight of several operators is the first one's, and the table knows the others.
TEST(EstimateCosts, KnowSharedAndFrozenWeights) {
  const CostTable table = countedTraining(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  attribute f parameter float32[8,8] data=seed(2)
  graph(%x : Tensor, %w : Tensor, %f : Tensor):
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor = aten::mm(%1, %f)
    %3 : Tensor = aten::mm(%2, %w)
    return (%3)
}
)",
                                          {at::ones({2, 8})});
  ASSERT_EQ(table.shared.size(), 1u);
  EXPECT_EQ(table.shared[0], (SharedWeight{"w", 256, true, {0, 2}}));
  EXPECT_EQ(table.rows[1].trainedBytes, 0);
  EXPECT_EQ(table.rows[1].weightBytes, 256);
  EXPECT_EQ(table.rows[1].weightGradNs, 0);
  EXPECT_EQ(table.rows[1].keptBytes, 0);  // the other factor's gradient is not wanted
  EXPECT_EQ(table.rows[2].keptBytes, 64); // its input, for the gradient of the weight
}

/// As scripted recurrent modules have theirs: read as a list, taken out of it or not.
TEST(EstimateCosts, KnowWeightsInLists) {
  const CostTable table = countedTraining(R"ir(model {
  attribute l value List[Tensor] value=[{"tensor":"float32[8,8]","requires_grad":true,"data":"seed(1)"},{"tensor":"float32[8,8]","data":"seed(2)"}]
  graph(%x : Tensor, %l : Tensor[]):
    %zero : int = prim::Constant[value=0]()
    %1 : Tensor, %2 : Tensor = prim::ListUnpack(%l)
    %3 : Tensor = aten::mm(%x, %1)
    %4 : Tensor = aten::mm(%3, %2)
    %5 : Tensor = aten::cat(%l, %zero)
    %6 : Tensor = aten::mm(%5, %4)
    return (%6)
}
)ir",
                                          {at::ones({8, 8})});
  ASSERT_EQ(table.rows.size(), 5u);
  EXPECT_EQ(table.rows[0].weightBytes, 512);
  EXPECT_EQ(table.rows[0].trainedBytes, 256);
  EXPECT_EQ(table.shared,
            (std::vector<SharedWeight>{{"l.0", 256, true, {0, 3}}, {"l.1", 256, false, {0, 3}}}));
  const int64_t flops = 2 * 8 * 8 * 8;
  EXPECT_EQ(table.rows[1].weightGradNs, flops); // of the trained weight
  EXPECT_EQ(table.rows[1].inputGradNs, 0);
  EXPECT_EQ(table.rows[2].weightGradNs, 0); // the other one is frozen
  EXPECT_EQ(table.rows[2].inputGradNs, flops);
}

/// Views of one storage: what they reach over together, whichever is read first.
TEST(EstimateCosts, CountAllOfAStorage) {
  const CostTable table = countedTraining(R"(model {
  attribute a parameter float32[8] requires_grad storage=0 data=none
  attribute b parameter float32[8,8] requires_grad storage=0 data=none
  graph(%x : Tensor, %a : Tensor, %b : Tensor):
    %1 : Tensor = aten::mul(%x, %a)
    %2 : Tensor = aten::mm(%1, %b)
    return (%2)
}
)",
                                          {at::ones({8, 8})});
  EXPECT_EQ(table.rows[0].weightBytes, 256);
  EXPECT_EQ(table.rows[0].trainedBytes, 256);
  EXPECT_EQ(table.rows[1].weightBytes, 0);
}

TEST(OperatorTimes, BackwardWritesIntoCopies) {
  Model flat = take(parseModel(R"(model {
  attribute w parameter float32[8,8] requires_grad data=seed(1)
  graph(%x : Tensor, %c : bool, %w : Tensor):
    %zero : int = prim::Constant[value=0]()
    %sizes : int[] = prim::Constant[value=[4, 8]]()
    %list : Tensor[] = prim::ListConstruct()
    %1 : Tensor = aten::mm(%x, %w)
    %2 : Tensor[] = aten::append(%list, %1)
    prim::If(%c)
      block0():
        %3 : Tensor[] = aten::append(%list, %1)
        -> ()
      block1():
        -> ()
    %4 : Tensor = aten::cat(%list, %zero)
    %5 : Tensor = aten::view(%4, %sizes)
    return (%5)
})"));
  std::vector<std::string> notes;
  TimingRequest request;
  request.budgetNs = 1;
  request.backward = true;
  // A list that had grown twice would be no view of this size.
  const CostTable table = take(timeOperators(flat, notes, {at::ones({2, 8}), true}, request));
  EXPECT_GT(table.rows[1].weightGradNs, 0);
}

TEST(SharedTime, IsTheScheduleIfNoRankSlowsAnother) {
  ScheduleShape shape;
  shape.stages = 3;
  shape.ranks = 3;
  shape.microBatches = 4;
  shape.rankOfStage = {0, 1, 2};
  const Schedule schedule = forwardOnly(shape);
  ScheduleCosts costs;
  costs.stages = {{10, 0, 0, 0, 0}, {30, 0, 0, 0, 0}, {20, 0, 0, 0, 0}};
  costs.latency = 5;
  const SharedStep step = timeShared(schedule, {{10, 10}, {30, 30}, {20, 20}}, 5, 3);
  EXPECT_EQ(step.makespan, take(timeSchedule(schedule, costs)).makespan);
  EXPECT_EQ(step.busiest, 4 * 30);
}

TEST(SharedTime, RanksSlowDownWhileOthersAreAtWork) {
  ScheduleShape shape;
  shape.stages = 2;
  shape.ranks = 2;
  shape.microBatches = 2;
  shape.rankOfStage = {0, 1};
  // Alone 10 each, beside the other 20: the second micro-batch of stage 0 beside the first of
  // stage 1.
  const SharedStep step = timeShared(forwardOnly(shape), {{10, 20}, {10, 20}}, 0, 2);
  EXPECT_EQ(step.makespan, 10 + 20 + 10);
  EXPECT_EQ(step.busiest, 30);
  // Half way: of what three ranks would suffer, two suffer a half.
  EXPECT_EQ(timeShared(forwardOnly(shape), {{10, 20}, {10, 20}}, 0, 3).makespan, 10 + 15 + 10);
  // The shorter one ends first; then the other goes on alone: half of it is done in 15.
  EXPECT_EQ(timeShared(forwardOnly(shape), {{10, 15}, {20, 30}}, 0, 2).makespan, 10 + 15 + 10 + 20);
}

TEST(LongStages, NamesStagesWithoutCost) {
  const Model cut = take(parseModel(R"(model {
  graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)  # in first
    pipec::cut()
    %b : Tensor = aten::t(%a)  # in turn
    pipec::cut()
    %c : Tensor = aten::neg(%b)  # in third
    pipec::cut()
    %y : Tensor = aten::t(%c)  # in back
    return (%y)
}
)"));
  std::vector<NodeCost> costs(4);
  for (NodeCost &cost : costs)
    cost.flops = 100;
  EXPECT_TRUE(longStageWarnings(cut, costs, /*byCost=*/true).empty());
  costs[1].flops = 0;
  const std::vector<std::string> one = longStageWarnings(cut, costs, /*byCost=*/true);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0],
            "stage 1 has only operators without cost (in turn); ask for fewer stages, 3 at most");
  costs[3].flops = 0;
  const std::vector<std::string> two = longStageWarnings(cut, costs, /*byCost=*/true);
  ASSERT_EQ(two.size(), 1u);
  EXPECT_EQ(two[0],
            "stages 1, 3 have only operators without cost (in turn, in back); ask for fewer "
            "stages, 2 at most");
}

TEST(LongStages, AdvisesNoCutsWhereCostsChoseThem) {
  const Model cut = take(parseModel(R"(model {
  graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)  # in first
    pipec::cut()
    %b : Tensor = aten::neg(%a)  # in second
    pipec::cut()
    %c : Tensor = aten::exp(%b)  # in third
    %d : Tensor = aten::sin(%c)  # in fourth
    %y : Tensor = aten::cos(%d)  # in last
    return (%y)
}
)"));
  std::vector<NodeCost> costs(5);
  for (NodeCost &cost : costs)
    cost.flops = 100;
  for (size_t i : {2, 3, 4})
    costs[i].flops = 1000;
  const std::string what = "stage 2 has 94 % of the cost, 2.8 times the mean of 3 stages: "
                           "3 operators from third to last; ";
  EXPECT_EQ(longStageWarnings(cut, costs, /*byCost=*/false),
            std::vector{what + "cut elsewhere, or leave the cuts to --split auto"});
  EXPECT_EQ(longStageWarnings(cut, costs, /*byCost=*/true),
            std::vector{what + "no better cuts were found, because messages between stages take "
                               "time and memory, too; ask for fewer stages, or pass larger "
                               "micro-batches"});
}

TEST(RoundTrip, SettlesAfterOneRun) {
  Model flat = take(parseModel(R"(model {
  graph(%x : Tensor, %c : bool):
    %one : int = prim::Constant[value=1]()
    %a : Tensor, %b : Tensor = prim::If(%c)
      block0():
        %p : Tensor = aten::neg(%x)  # in first
        -> (%p, %x)
      block1():
        %q : Tensor = aten::relu(%x)  # in second
        -> (%x, %q)
    %y : Tensor = aten::sub(%b, %a, %one)  # in last
    return (%y)
}
)"));
  ASSERT_TRUE(succeeded(roundTrip(flat)));
  const std::vector<std::string> settled = canonicalLines(flat);
  llvm::Expected<bool> again = roundTrip(flat);
  ASSERT_TRUE(succeeded(again));
  EXPECT_FALSE(*again);
  EXPECT_EQ(canonicalLines(flat), settled);
  TextOptions scopes;
  scopes.scopes = true;
  const std::string text = take(toText(std::move(flat), scopes));
  for (const char *path : {"# in first", "# in second", "# in last"})
    EXPECT_TRUE(contains(text, path)) << text; // what TorchScript's text cannot hold is carried
}

/// The names that LibTorch gives to values without one count up: results of one If may be _9 and
/// _10.
TEST(RoundTrip, KeepsTheOrderOfResults) {
  for (int before = 1; before < 15; ++before) {
    std::string text =
        "model {\n  graph(%0 : Tensor, %1 : bool):\n    %2 : Tensor = aten::sin(%0)\n";
    for (int i = 2; i < 2 + before; ++i)
      text += fmt::format("    %{} : Tensor = aten::sin(%{})\n", i + 1, i);
    text += fmt::format("    %100 : Tensor, %101 : int = prim::If(%1)\n"
                        "      block0():\n"
                        "        %102 : int = aten::dim(%0)\n"
                        "        -> (%{}, %102)\n"
                        "      block1():\n"
                        "        %103 : int = aten::numel(%0)\n"
                        "        -> (%0, %103)\n"
                        "    %104 : Tensor = aten::sub(%100, %100, %101)\n"
                        "    return (%104)\n}}\n",
                        2 + before);
    Model flat = take(parseModel(text));
    ASSERT_TRUE(succeeded(roundTrip(flat)));
    const std::string settled = llvm::join(canonicalLines(flat), "\n");
    EXPECT_NE(settled.find("int, = prim::If"), std::string::npos) << before << "\n" << settled;
  }
}

TEST(RoundTrip, KeepsAnUnusedDraw) {
  Model flat = take(parseModel(R"(model {
  graph(%x : Tensor):
    %p : float = prim::Constant[value=0.5]()
    %true : bool = prim::Constant[value=1]()
    %unused : Tensor = aten::dropout(%x, %p, %true)
    %y : Tensor = aten::dropout(%x, %p, %true)
    return (%y)
}
)"));
  EXPECT_TRUE(take(roundTrip(flat)));
  EXPECT_FALSE(take(roundTrip(flat)));
  const std::string text = take(toText(std::move(flat)));
  const size_t first = text.find("aten::dropout(");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("aten::dropout(", first + 1), std::string::npos) << text;
}

} // namespace
} // namespace pipec

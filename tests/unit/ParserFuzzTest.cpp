// Our own parsers on texts that were cut off or changed in one byte: an error or a value, never a
// crash, and in bounded time. What is accepted prints and reads as itself.
#include "ir/Model.h"
#include "ir/artifact/Manifest.h"
#include "ir/plan/Obligation.h"
#include "ir/plan/PlanFromJson.h"
#include "ir/plan/PlanToJson.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/Program.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/text/ModelParser.h"
#include "ir/text/ModelText.h"
#include "ir/values/DescribedArguments.h"
#include "tests/support/Matchers.h"
#include "tests/support/RunShapes.h"
#include "tests/support/SamplePlan.h"

#include <chrono>
#include <functional>
#include <random>

namespace pipec {
namespace {

/// Reads a text; true when it was accepted. Errors must be ours: a code that a user can act on.
using Reader = std::function<bool(llvm::StringRef)>;

template <typename T> bool accepted(llvm::Expected<T> value, ExitCode code) {
  if (value)
    return true;
  ErrorText text = describe(value.takeError());
  EXPECT_EQ(text.code, code) << text.message;
  EXPECT_FALSE(text.message.empty());
  return false;
}

/// Every prefix, and `mutations` texts with one byte changed, left out or doubled. Bytes are chosen
/// by a fixed seed among those that the text has and those that parsers trip over.
void fuzz(const std::string &text, const Reader &read, size_t mutations) {
  ASSERT_TRUE(read(text)) << text;
  auto start = std::chrono::steady_clock::now();
  size_t step = std::max<size_t>(1, text.size() / 2000);
  for (size_t length = 0; length < text.size(); length += step)
    read(llvm::StringRef(text).take_front(length));
  std::mt19937 random(7);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::string odd = std::string("\0\t\n\r \"\\{}[](),:;#%@-+.0123456789eEBx\x7f\x80\xff", 40);
  for (size_t i = 0; i < mutations; ++i) {
    std::string changed = text;
    size_t place = below(text.size());
    switch (below(4)) {
    case 0:
      changed[place] = text[below(text.size())];
      break;
    case 1:
      changed[place] = odd[below(odd.size())];
      break;
    case 2:
      changed.erase(place, 1 + below(3));
      break;
    default:
      changed.insert(place, text.substr(place, 1 + below(20)));
    }
    read(changed);
  }
  // Generous: a loaded machine must not fail it, a quadratic parser or a loop must.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

TEST(ParserFuzz, Plan) {
  fuzz(
      toJson(richPlan()),
      [](llvm::StringRef text) {
        std::vector<std::string> warnings;
        llvm::Expected<Plan> plan = planFromJson(text, warnings);
        if (!plan) {
          ErrorText error = describe(plan.takeError());
          EXPECT_TRUE(error.code == ExitCode::BadArtifact || error.code == ExitCode::Version)
              << error.message;
          return false;
        }
        if (plan->minor == Plan::kMinor) {
          EXPECT_EQ(take(planFromJson(toJson(*plan), warnings)), *plan);
        }
        return true;
      },
      4000);
}

TEST(ParserFuzz, Manifest) {
  Manifest manifest;
  for (const char *name : {"plan.json", "schedule.csv", "stage-0.ir", "stage-0.pt"})
    manifest[name] = std::string(64, 'a');
  fuzz(
      toString(manifest),
      [](llvm::StringRef text) {
        llvm::Expected<Manifest> read = manifestFromText(text);
        if (read && !text.empty()) {
          EXPECT_EQ(toString(*read), text); // one text for one value
        }
        return accepted(std::move(read), ExitCode::BadArtifact);
      },
      20000);
}

TEST(ParserFuzz, Schedule) {
  ScheduleShape shape{3, 4, {0, 1, 1}, 2};
  Plan plan = chainPlan({0, 1, 1});
  fuzz(
      toCsv(forwardOnly(shape)),
      [&](llvm::StringRef text) {
        if (llvm::Expected<Schedule> schedule = scheduleFromCsv(text)) {
          EXPECT_EQ(take(scheduleFromCsv(toCsv(*schedule))), *schedule);
        } else {
          llvm::consumeError(schedule.takeError());
        }
        return accepted(checkSchedule(text, plan), ExitCode::BadArtifact);
      },
      20000);
}

TEST(ParserFuzz, Program) {
  Plan plan = chainPlan({0, 1, 0});
  ScheduleShape shape{3, 2, {0, 1, 0}, 2};
  fuzz(
      toString(take(lower(forwardOnly(shape), plan, inferenceOf(2)))),
      [&](llvm::StringRef text) {
        llvm::Expected<Program> program = programFromText(text);
        if (program)
          llvm::consumeError(check(*program, plan, inferenceOf(2)));
        else
          return llvm::consumeError(program.takeError()), false;
        return true;
      },
      10000);
}

TEST(ParserFuzz, Obligation) {
  for (const Obligation &obligation :
       {Obligation::recompute("aten::size", 2, 3), Obligation::reorder({0, 3, 4, 1, 2}),
        Obligation::fact("input x", "rank", "2")})
    fuzz(
        toString(obligation),
        [](llvm::StringRef text) { return accepted(parseObligation(text), ExitCode::BadArtifact); },
        5000);
}

TEST(ParserFuzz, ValuesDescription) {
  // Small sizes: a changed digit may ask for any number of elements.
  fuzz(
      "f32[2,3],i64[4]<30,bool[],c64[1]",
      [](llvm::StringRef text) {
        llvm::Expected<Arguments> values = describedArguments(text);
        if (values)
          return true;
        ErrorText error = describe(values.takeError());
        EXPECT_TRUE(error.code == ExitCode::Usage || error.code == ExitCode::OutOfMemory ||
                    error.code == ExitCode::Unreadable)
            << text.str() << ": " << error.message;
        return false;
      },
      300);
}

constexpr const char *kModelText = R"(model method=forward mode=train {
  batch size=4 fixed
  input x : Tensor batch_dim=0 tensor=float32[B,2] strides=[2,1] bytes=32
  input n : Optional[List[int]] default=[1,2]
  outputs (0, {"a b": 1})
  output 0 : Tensor merge=concat:0
  output 1 : Tensor merge=same
  attribute w parameter float32[2,2] requires_grad data=seed(7) also=[v]
  attribute names value List[str] value=["a","b c"]
  state w
  costs [10/8,3/0]
  obligation "recompute aten::size 2 times in stage 1"
  graph(%x : Tensor, %n : int[]?, %w : Tensor, %names : str[]):
    %k : int = prim::Constant[value=1]()
    %y : Tensor = aten::matmul(%x, %w)
    %b : bool = aten::Bool(%y)
    %z : Tensor = prim::If(%b)
      block0():
        %a : Tensor = aten::add(%y, %y, %k)
        -> (%a)
      block1():
        -> (%y)
    return (%y, %z, %w)
}
)";

TEST(ParserFuzz, ModelText) {
  fuzz(
      kModelText,
      [](llvm::StringRef text) {
        llvm::Expected<std::vector<ParsedModel>> models = parseModels(text);
        if (models)
          return true;
        ErrorText error = describe(models.takeError());
        EXPECT_TRUE(error.code == ExitCode::Unreadable || error.code == ExitCode::Unsupported ||
                    error.code == ExitCode::IO)
            << text.str() << ": " << error.message;
        return false;
      },
      2000);
}

} // namespace
} // namespace pipec

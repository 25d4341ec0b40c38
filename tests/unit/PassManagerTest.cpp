// Pipelines as text, and the manager that keeps passes honest.
#include "passes/PassManager.h"

#include "llvm/Support/raw_ostream.h"
#include "passes/ChooseCuts.h"
#include "passes/LegaliseCuts.h"
#include "passes/LowerAttributes.h"
#include "passes/PassTable.h"
#include "passes/Passes.h"
#include "passes/Registry.h"
#include "passes/ResolveTies.h"
#include "passes/UnrollLoops.h"
#include "passes/analysis/AliasAnalysis.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

namespace pipec {
namespace {

/// What the passes below do: each registry row holds one of these.
struct ScriptedPass : ModelPass {
  using Body = std::function<llvm::Expected<bool>(Model &, PassContext &)>;
  explicit ScriptedPass(Body body_) : body(std::move(body_)) {}
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    return body(model, context);
  }
  Body body;
};

/// The options of each row below.
struct RowOptions {
  static OptionFields<RowOptions> fields() {
    return {countOption("n=N", "a number", &RowOptions::n),
            choiceOption<RowOptions, bool>("speed=quick|slow", "a word", &RowOptions::slow,
                                           {{"quick", false}, {"slow", true}}),
            listOption("names=A:B", "a list", &RowOptions::names)};
  }
  size_t n = 1;
  bool slow = true;
  std::vector<std::string> names;
};

PassInfo row(llvm::StringRef name, ScriptedPass::Body body) {
  PassInfo info;
  info.name = name;
  info.options = optionsOf<RowOptions>();
  info.make = MakePass<ModelPass>(
      [body](const StepOptions *) { return std::make_unique<ScriptedPass>(body); });
  return info;
}

bool rename(Model &model) {
  model.sourceDigest += "x";
  return true;
}

struct Split : SplitPass {
  llvm::Expected<StagedModel> run(Model, PassContext &) override { return StagedModel(); }
};

class PassManagerTest : public testing::Test {
protected:
  PassManagerTest() {
    options.registry = table;
    options.out = &prints;
  }

  AnyModel model() {
    llvm::Expected<Model> parsed =
        parseModel("model {\n  attribute w parameter float32[2] data=seed(1)\n"
                   "  attribute l value List[Tensor] value=[{\"tensor\":\"int64[300]\"}]\n"
                   "  graph(%x : Tensor, %w : Tensor, %l : Tensor[]):\n    return (%x)\n}");
    EXPECT_TRUE(succeeded(parsed));
    return std::move(*parsed);
  }

  llvm::Expected<bool> run(const std::string &pipeline) {
    PassManager manager(options);
    if (llvm::Error error = manager.addPipeline(pipeline))
      return error;
    AnyModel any = model();
    return manager.run(any);
  }

  std::vector<PassInfo> table = {
      row("nothing", [](Model &, PassContext &) { return false; }),
      row("rename", [](Model &m, PassContext &) { return rename(m); }),
      row("rename-thrice",
          [](Model &m, PassContext &) { return m.sourceDigest.size() < 3 && rename(m); }),
      row("liar",
          [](Model &m, PassContext &) {
            rename(m);
            return false;
          }),
      row("boaster", [](Model &, PassContext &) { return true; }),
      row("weights",
          [](Model &m, PassContext &) {
            m.attributes[0].value.toTensor().data_ptr<float>()[1] += 1;
            return false;
          }),
      row("inner-weights",
          [](Model &m, PassContext &) {
            m.attributes[1].value.toListRef()[0].toTensor().data_ptr<int64_t>()[299] = 1;
            return false;
          }),
      row("flag",
          [](Model &m, PassContext &) {
            m.attributes[0].value.toTensor().set_requires_grad(true);
            return false;
          }),
      row("notes",
          [](Model &, PassContext &context) {
            context.notes.push_back("a sentence for the report");
            return false;
          }),
      row("warnings",
          [](Model &, PassContext &context) {
            context.warnings.push_back("a sentence for the user");
            return false;
          }),
      row("asked-by",
          [](Model &, PassContext &context) {
            context.askedBy.push_back("--at head");
            return false;
          }),
      row("answers",
          [](Model &, PassContext &context) {
            context.answers.note({"input x", 0, "rank"}, "2");
            return false;
          }),
      row("breaker",
          [](Model &m, PassContext &) {
            m.signature.outputs.leaf = 5;
            return true;
          }),
      row("refuses",
          [](Model &, PassContext &) -> llvm::Expected<bool> {
            return failf(ExitCode::Unsupported, "no cut fits");
          }),
  };
  std::string printed;
  llvm::raw_string_ostream prints{printed};
  PassManagerOptions options;
};

TEST_F(PassManagerTest, SaysWhetherAnythingChanged) {
  llvm::Expected<bool> nothing = run("nothing,nothing"), something = run("nothing,rename");
  ASSERT_TRUE(succeeded(nothing));
  ASSERT_TRUE(succeeded(something));
  EXPECT_FALSE(*nothing);
  EXPECT_TRUE(*something);
}

TEST_F(PassManagerTest, NamesThePassThatHidesAChange) {
  options.checkHonesty = true;
  for (const char *pass :
       {"liar", "weights", "inner-weights", "flag", "notes", "warnings", "asked-by", "answers"})
    EXPECT_TRUE(failedWith(run("nothing,rename," + std::string(pass)), ExitCode::Internal,
                           fmt::format("pass {} changed the model but reported no change", pass)))
        << pass;
}

TEST_F(PassManagerTest, NamesThePassThatClaimsAChange) {
  options.checkHonesty = true;
  EXPECT_TRUE(failedWith(run("rename,boaster{n=2}"), ExitCode::Internal,
                         "pass boaster{n=2} reported a change but did not change the model"));
  EXPECT_TRUE(failedWith(run("fixpoint(nothing,boaster)"), ExitCode::Internal,
                         "pass boaster reported a change but did not change the model"));
}

TEST_F(PassManagerTest, BelievesEveryPassWithoutChecks) {
  options.checkHonesty = false;
  for (const char *pass : {"liar", "weights", "boaster"})
    EXPECT_TRUE(succeeded(run(pass))) << pass;
}

TEST_F(PassManagerTest, NamesThePassThatBreaksTheModel) {
  EXPECT_TRUE(failedWith(run("rename,breaker{n=2}"), ExitCode::Internal,
                         "pass breaker{n=2} left a model that is not valid: outputs: output "
                         "result: expected number 0, got 5"));
  options.verifyEach = false;
  EXPECT_TRUE(succeeded(run("breaker")));
}

TEST_F(PassManagerTest, HandsOnThePassesOwnError) {
  EXPECT_TRUE(failedWith(run("refuses"), ExitCode::Unsupported, "no cut fits"));
}

TEST_F(PassManagerTest, FixpointRepeatsUntilNothingChanges) {
  PassManager manager(options);
  ASSERT_TRUE(succeeded(manager.addPipeline("fixpoint(nothing,rename-thrice)")));
  AnyModel any = model();
  ASSERT_TRUE(succeeded(manager.run(any)));
  EXPECT_EQ(std::get<Model>(any).sourceDigest, "xxx");
  ASSERT_EQ(manager.times().size(), 2u);
  EXPECT_EQ(manager.times()[1].name, "rename-thrice");
  EXPECT_EQ(manager.times()[1].runs, 4u);
  EXPECT_EQ(manager.times()[1].changes, 3u);
  EXPECT_TRUE(failedWith(
      run("fixpoint(rename)"), ExitCode::Internal,
      "fixpoint(rename) does not converge: pass rename still changes the model in round 100"));
}

/// In both forms of the manager: with checkHonesty it runs the pass again, and checks the report.
TEST_F(PassManagerTest, APassThatFoundNothingRunsAgainOnlyAfterAChange) {
  for (auto [honest, text, runs] :
       {std::tuple(false, "nothing,nothing,nothing{n=2}", 2u),
        std::tuple(false, "nothing,rename,nothing,nothing", 2u),
        std::tuple(false, "fixpoint(fixpoint(nothing,rename-thrice),nothing),nothing", 4u),
        std::tuple(true, "nothing,nothing,nothing{n=2}", 3u)}) {
    options.checkHonesty = honest;
    PassManager manager(options);
    ASSERT_TRUE(succeeded(manager.addPipeline(text)));
    for (size_t models : {1, 2}) { // a second model begins anew
      AnyModel any = model();
      ASSERT_TRUE(succeeded(manager.run(any)));
      EXPECT_EQ(manager.times()[0].runs, runs * models) << text;
    }
  }
  options.checkHonesty = true;
  bool isSecond = false;
  table.push_back(row("fickle", [&](Model &m, PassContext &) {
    return std::exchange(isSecond, true) && rename(m);
  }));
  options.registry = table;
  EXPECT_TRUE(failedWith(run("fickle,nothing,fickle"), ExitCode::Internal,
                         "pass fickle changed a model that it had left unchanged the last time"));
}

TEST_F(PassManagerTest, PassesShareOneAliasAnalysisUntilAChange) {
  std::vector<std::shared_ptr<const AliasAnalysis>> seen;
  PassContext context;
  table.push_back(row("look", [&](Model &m, PassContext &given) {
    seen.push_back(aliasesOf(m, given));
    return false;
  }));
  options.registry = table;
  PassManager manager(options);
  ASSERT_TRUE(succeeded(manager.addPipeline("look,nothing,look{n=2},rename,look")));
  AnyModel any = model();
  ASSERT_TRUE(succeeded(manager.run(any, context)));
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
  EXPECT_NE(seen[2], aliasesOf(std::get<Model>(any), context)) << "no manager runs any more";
}

TEST_F(PassManagerTest, UnknownNamesAndOptionsAreRefusedBeforeAnythingRuns) {
  EXPECT_TRUE(failedWith(run("renam"), ExitCode::Usage, "there is no pass renam"));
  EXPECT_TRUE(failedWith(run("renam"), ExitCode::Usage, "did you mean rename?"));
  EXPECT_TRUE(failedWith(run("rename{m=1}"), ExitCode::Usage, "unknown option m"));
  EXPECT_TRUE(failedWith(run("rename{n=a}"), ExitCode::Usage,
                         "option n: expected a number of 0 or more, got a"));
  EXPECT_TRUE(failedWith(run("rename{speed=perhaps}"), ExitCode::Usage,
                         "pass rename: option speed: expected one of quick, slow, got perhaps"));
  EXPECT_TRUE(failedWith(run("fixpoint(renam)"), ExitCode::Usage, "there is no pass renam"));
}

TEST_F(PassManagerTest, PrintsWhatWasAskedFor) {
  options.printAfter = "nothing";
  ASSERT_TRUE(succeeded(run("rename,nothing")));
  EXPECT_EQ(prints.str().find("# after nothing: no change\nmodel "), 0u) << printed;
  printed.clear();
  options.printAfter = "";
  options.printChanged = true;
  ASSERT_TRUE(succeeded(run("rename,nothing")));
  EXPECT_EQ(prints.str().find("# after rename\nmodel "), 0u) << printed;
  EXPECT_EQ(prints.str().find("# after nothing"), std::string::npos) << printed;
}

TEST_F(PassManagerTest, HookSeesEachRunAndMayStop) {
  std::vector<std::string> seen;
  options.afterPass = [&](const PassRun &pass) -> llvm::Error {
    seen.push_back(pass.text + (pass.changed ? "*" : ""));
    if (seen.size() == 2)
      return failf(ExitCode::Other, "enough");
    return llvm::Error::success();
  };
  EXPECT_TRUE(failedWith(run("rename{n=2},nothing,rename"), ExitCode::Other, "enough"));
  EXPECT_EQ(seen, (std::vector<std::string>{"rename{n=2}*", "nothing"}));
}

TEST_F(PassManagerTest, KindsOfModelsMeetTheirPasses) {
  PassInfo split;
  split.name = "split";
  split.make = withoutOptions<Split>();
  table.push_back(split);
  options.registry = table;
  options.verifyEach = false;
  EXPECT_TRUE(succeeded(run("split")));
  EXPECT_TRUE(failedWith(run("split,rename"), ExitCode::Usage,
                         "pass rename works on a model, got a staged model"));
}

TEST(PassPipeline, TextAndBack) {
  const auto body = [](Model &, PassContext &) { return false; };
  const std::vector<PassInfo> table = {row("a", body), row("b", body), row("c", body),
                                       row("d", body)};
  for (const char *text : {"", "a", "a,b", "a{n=0},b{n=2,speed=quick,names=p:q}",
                           "fixpoint(a,fixpoint(b{n=3},c)),d"}) {
    llvm::Expected<PassPipeline> steps = parsePipeline(text, table);
    ASSERT_TRUE(succeeded(steps));
    EXPECT_EQ(pipelineText(*steps), text);
  }
  for (auto [text, same] :
       {std::pair(" a , b { n = 2 } ", "a,b{n=2}"),
        std::pair("# first, a\na,\n# and, then b\nb{n=2},  # c too\nc # all", "a,b{n=2},c"),
        std::pair("a{names=,n=1,speed=slow}", "a")}) {
    llvm::Expected<PassPipeline> steps = parsePipeline(text, table);
    ASSERT_TRUE(succeeded(steps));
    EXPECT_EQ(pipelineText(*steps), same);
  }
}

TEST(PassPipeline, ErrorsNameThePlace) {
  for (auto [text, message] : {std::pair("a,,b", "character 3: expected the name of a pass"),
                               std::pair("a{x=1", "expected } at the end of the options"),
                               std::pair("a{x=1,x=2}", "option x appears twice"),
                               std::pair("a{}", "expected the name of an option"),
                               std::pair("fixpoint(a", "expected ) at the end of fixpoint"),
                               std::pair("fixpoint", "expected ( after fixpoint"),
                               std::pair("a)b", "expected a comma, got )"),
                               std::pair("fixpoint{x=1}(a)", "fixpoint takes no options")})
    EXPECT_TRUE(failedWith(parsePipeline(text, allPasses()), ExitCode::Usage, message)) << text;
}

TEST(PassPipeline, TypedOptionsAreTheirText) {
  ChooseCutsOptions cuts;
  cuts.split = CutSource::At;
  cuts.at = {"a", "b#2"};
  cuts.nearest = true;
  cuts.stages = 3;
  cuts.places = {2, 4};
  cuts.order = {0, 1, 3, 2, 4, 5};
  LowerAttributesOptions lower;
  lower.training = false;
  lower.keepEval = {"c"};
  ResolveTiesOptions ties;
  ties.mode = Tie::Mode::Replicate;
  ties.byName = {{"w", Tie::Mode::Transmit}};
  LegaliseCutsOptions legalise;
  legalise.nearest = true;
  UnrollLoopsOptions unroll;
  unroll.growth = 5;
  const std::string text =
      pipelineText(PassPipeline{lower, fixpoint({unroll, "dead-code"}), cuts, legalise, ties});
  EXPECT_EQ(text, "lower-attributes{training=false,keep-eval=c},"
                  "fixpoint(unroll-loops{growth=5},dead-code),"
                  "choose-cuts{split=at,at=a:b#2,stages=3,places=2:4,order=0-1:3:2:4-5,"
                  "place=nearest},legalise-cuts{place=nearest},"
                  "resolve-ties{mode=replicate,names=w/transmit}");
  llvm::Expected<PassPipeline> read = parsePipeline(text, allPasses());
  ASSERT_TRUE(succeeded(read));
  EXPECT_EQ(pipelineText(*read), text);
}

TEST(Registry, EveryRowIsComplete) {
  std::vector<std::string> names;
  for (const PassInfo &info : allPasses()) {
    SCOPED_TRACE(info.name.str());
    EXPECT_TRUE(llvm::all_of(info.name, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; }));
    EXPECT_FALSE(llvm::is_contained(names, info.name.str()));
    names.push_back(info.name.str());
    EXPECT_FALSE(info.description.empty());
    EXPECT_FALSE(info.requires_.empty());
    EXPECT_FALSE(info.guarantees.empty());
    EXPECT_TRUE(info.example.contains("=>"));
    EXPECT_LE(info.example.count('\n'), 10u);
    EXPECT_EQ(findPass(info.name), &info);
  }
  std::string page;
  llvm::raw_string_ostream os(page);
  printPassesMarkdown(os);
  for (const std::string &name : names)
    EXPECT_NE(os.str().find("## " + name + "\n"), std::string::npos);
}

} // namespace
} // namespace pipec

// What all commands share: the command line in our words, help, units, tables, the timeline.
#include "llvm/ADT/StringExtras.h"
#include "tests/support/Matchers.h"
#include "tests/support/SamplePlan.h"
#include "tools/cli/CommandLine.h"
#include "tools/cli/Completion.h"
#include "tools/cli/Help.h"
#include "tools/cli/ManPage.h"
#include "tools/cli/Pages.h"
#include "tools/cli/Units.h"
#include "tools/report/Markup.h"
#include "tools/report/Table.h"
#include "tools/report/Timeline.h"

namespace pipec {
namespace {

namespace cl = llvm::cl;

cl::OptionCategory training("training");
cl::OptionCategory hidden("hidden options of a test");
StringOption modelOption(cl::Positional, cl::Required, cl::value_desc("MODEL"),
                         cl::desc("the model"));
IntegerOption stagesOption("stages", cl::value_desc("N"), cl::desc("number of stages"));
DurationOption limit("timeout", cl::value_desc("TIME"), cl::desc("how long to wait"),
                     cl::cat(training));
StringListOption
    at("at", cl::CommaSeparated, cl::value_desc("NAME,..."),
       cl::desc("where to cut, and a sentence so long that it has to be wrapped before it ends"));
FlagOption json("json", cl::desc("print one JSON document"));
StringOption output("o", cl::value_desc("OUT"), cl::desc("where to write"));
FlagOption secret("secret", cl::Hidden, cl::desc("not shown"), cl::cat(hidden));

const ToolInfo kInfo = {"tool", "does things", "MODEL [options]", {"tool m --stages 2"}};

llvm::Error checkLine(std::vector<const char *> arguments) {
  arguments.insert(arguments.begin(), "tool");
  return checkCommandLine(arguments, kInfo);
}

TEST(CommandLine, acceptsGoodLines) {
  EXPECT_TRUE(succeeded(checkLine({"m"})));
  EXPECT_TRUE(
      succeeded(checkLine({"--stages", "3", "m", "--json", "-o", "x", "--at", "a,b", "--at=c"})));
  EXPECT_TRUE(succeeded(checkLine({"m", "--stages=-3", "--json=false", "--secret", "-o=x"})));
  EXPECT_TRUE(succeeded(checkLine({"--stages", "2", "--", "--odd-name"})));
  EXPECT_TRUE(succeeded(checkLine({"m", "-o", "-"})));
}

TEST(CommandLine, saysWhatIsWrong) {
  struct Case {
    std::vector<const char *> arguments;
    const char *message;
  };
  const Case cases[] = {
      {{}, "missing argument MODEL\nusage: tool MODEL [options]"},
      {{"m", "n"}, "unexpected argument \"n\""},
      {{"m", "--stagse", "3"}, "unknown option --stagse\ndid you mean --stages?"},
      {{"m", "--stagse=3"}, "unknown option --stagse\ndid you mean --stages?"},
      {{"m", "--st"}, "unknown option --st\ndid you mean --stages?"},
      {{"m", "-stages", "3"}, "unknown option -stages\ndid you mean --stages?"},
      {{"m", "--quite-another"}, "unknown option --quite-another\nsee tool --help"},
      {{"m", "--color"}, "unknown option --color"},
      {{"m", "--print-all-options"}, "unknown option --print-all-options"},
      {{"m", "--halp"}, "did you mean --help?"},
      {{"m", "--stages"}, "--stages: expected a value, got none"},
      {{"m", "--stages="}, "--stages: expected a value, got none"},
      {{"m", "--stages", "--json"}, "--stages: expected a value, got --json"},
      {{"m", "--stages", "1", "--stages", "2"}, "--stages: expected one value, got two"},
      {{"m", "--json=maybe"}, "--json: expected true or false, got \"maybe\""},
      {{"m", "--at", "a,"},
       "--at: expected something on both sides of each comma, got \"a,\"\npass a"},
      {{"m", "--at=,a,,b"},
       "--at: expected something on both sides of each comma, got \",a,,b\""
       "\npass a,b"},
      {{"m", "--at", ","}, "--at: expected something on both sides of each comma, got \",\""},
      {{"m", "-o"}, "-o: expected a value, got none"},
      {{"m", "-o", ""}, "-o: expected a value, got none"},
      {{""}, "MODEL: expected a name, got an empty one"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(checkLine(c.arguments), ExitCode::Usage, c.message)) << c.message;
}

TEST(CommandLine, saysWhatToPassInstead) {
  ToolInfo info = kInfo;
  info.insteadOf["stage"] = "the number of stages, as in --stages 2";
  const char *line[] = {"tool", "m", "--stage", "2"};
  EXPECT_TRUE(failedWith(checkCommandLine(line, info), ExitCode::Usage,
                         "unknown option --stage\npass the number of stages, as in --stages 2"));
}

TEST(CommandLine, valuesAreReadOrRefused) {
  const char *good[] = {"tool",  "m",    "--stages", "3",    "--timeout",
                        "1.5ms", "--at", "a,b",      "--at", "c"};
  ASSERT_TRUE(succeeded(readCommandLine(good)));
  EXPECT_EQ(int64_t(stagesOption), 3);
  EXPECT_EQ(int64_t(limit), 1500000);
  EXPECT_EQ(at.size(), 3u);
  EXPECT_TRUE(given(stagesOption));
  EXPECT_FALSE(given(output));
  cl::ResetAllOptionOccurrences();
  const char *bad[] = {"tool", "m", "--stages", "three"};
  EXPECT_TRUE(failedWith(readCommandLine(bad), ExitCode::Usage,
                         "--stages: expected a whole number, got \"three\""));
  cl::ResetAllOptionOccurrences();
}

TEST(CommandLine, asksForStopsAtTheEndOfOptions) {
  EXPECT_TRUE(asksFor({"tool", "m", "--help"}, "--help"));
  EXPECT_FALSE(asksFor({"tool", "--", "--help"}, "--help"));
  EXPECT_FALSE(asksFor({"--help"}, "--help")); // the name of the program
}

TEST(Help, isStable) {
  EXPECT_EQ(helpText(kInfo),
            "tool: does things\n\n"
            "usage: tool MODEL [options]\n\n"
            "arguments:\n"
            "  MODEL                     the model\n\n"
            "options:\n"
            "  --at NAME,...             where to cut, and a sentence so long that it has to be "
            "wrapped before it\n"
            "                            ends\n"
            "  --json                    print one JSON document\n"
            "  -o OUT                    where to write\n"
            "  --stages N                number of stages\n"
            "  --help                    print this text\n"
            "  --version                 print the versions of pipec and its libraries\n\n"
            "training:\n"
            "  --timeout TIME            how long to wait\n\n"
            "examples:\n"
            "  tool m --stages 2\n");
}

TEST(OptionTable, saysWhatAShellCanOffer) {
  ToolInfo info;
  info.words = {{"PASS", {"inline", "dead-code"}}};
  auto shown = [&](llvm::StringRef value) {
    ValueChoices choices = valueChoices(value, info);
    return llvm::join(choices.words, " ") + "/" + llvm::join(choices.endings, " ") +
           (choices.directories ? "/directories" : "") + (choices.list ? "/list" : "");
  };
  EXPECT_EQ(shown("N"), "/");
  EXPECT_EQ(shown("auto|markers|at"), "auto markers at/");
  EXPECT_EQ(shown("FILE|TEXT"), "/*");
  EXPECT_EQ(shown("forward-only|FILE.csv"), "forward-only/csv");
  EXPECT_EQ(shown("FILE.ir | FILE.pt | -"), "/ir pt");
  EXPECT_EQ(shown("MODEL.pipe|MODEL.pt"), "/pt/directories");
  EXPECT_EQ(shown("DIR"), "//directories");
  EXPECT_EQ(shown("PASS|all"), "inline dead-code all/");
  EXPECT_EQ(shown("PASS,..."), "inline dead-code//list");
  EXPECT_EQ(shown("cpu|cuda|cuda:N,..."), "cpu cuda//list");
  EXPECT_EQ(shown("NAME=K|none,..."), "//list");
  EXPECT_EQ(shown("transmit|replicate|NAME=...,..."), "transmit replicate//list");
}

TEST(Pages, roffAndShellsSeeNoSpecialCharacters) {
  ToolInfo info = kInfo;
  info.description = "it's a \\ - [test]";
  EXPECT_NE(manPage(info).find("tool \\- it\\(aqs a \\e \\- [test]\n"), std::string::npos)
      << manPage(info);
  EXPECT_NE(zshCompletion(info).find("'*--at=[where to cut"), std::string::npos)
      << zshCompletion(info);
  EXPECT_NE(fishCompletion(info).find("complete -c tool -s o -x -d 'where to write'\n"),
            std::string::npos)
      << fishCompletion(info);
}

TEST(Units, sizes) {
  EXPECT_EQ(llvm::cantFail(parseSize("64")), 64);
  EXPECT_EQ(llvm::cantFail(parseSize("64B")), 64);
  EXPECT_EQ(llvm::cantFail(parseSize("10kB")), 10000);
  EXPECT_EQ(llvm::cantFail(parseSize("1.5 GiB")), 1610612736);
  EXPECT_EQ(llvm::cantFail(parseSize("2TiB")), int64_t(2) << 40);
  for (const char *text :
       {"", "GiB", "-1", "1.GiB", ".5GiB", "1XB", "1gib", "1e3", "99999999TiB", "1 2"})
    EXPECT_TRUE(
        failedWith(parseSize(text), ExitCode::Usage, "expected a size like 512MiB or 64GiB"))
        << text;
}

TEST(Units, times) {
  EXPECT_EQ(llvm::cantFail(parseDuration("90s")), 90000000000);
  EXPECT_EQ(llvm::cantFail(parseDuration("2")), 2000000000);
  EXPECT_EQ(llvm::cantFail(parseDuration("1.5ms")), 1500000);
  EXPECT_EQ(llvm::cantFail(parseDuration("3ns")), 3);
  EXPECT_EQ(llvm::cantFail(parseDuration("2h")), 7200000000000);
  for (const char *text : {"", "s", "5 parsecs", "-3s", "1e400s", "9999999h"})
    EXPECT_TRUE(
        failedWith(parseDuration(text), ExitCode::Usage, "expected a time like 90s or 1.5ms"))
        << text;
}

TEST(Units, print) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1024), "1.00 KiB");
  EXPECT_EQ(formatBytes(123456789), "118 MiB");
  EXPECT_EQ(formatCount(999), "999");
  EXPECT_EQ(formatCount(25557032), "25.6 M");
  EXPECT_EQ(formatDuration(999), "999 ns");
  EXPECT_EQ(formatDuration(1234567), "1.23 ms");
  EXPECT_EQ(formatDuration(999600), "1.00 ms");
  EXPECT_EQ(formatDuration(5000000000000), "5000 s");
}

TEST(Table, alignsColumns) {
  Table table({{"stage"}, {"bytes", Table::Right}, {"note"}});
  table.addRow({"0", "1.2 MiB"});
  table.addRow({"h\xc3\xa9", "7 B", "x"});
  std::string text;
  llvm::raw_string_ostream out(text);
  table.print(out);
  EXPECT_EQ(out.str(), "  stage    bytes  note\n"
                       "  0      1.2 MiB\n"
                       "  h\xc3\xa9         7 B  x\n");
}

Schedule csv(const char *text) { return llvm::cantFail(scheduleFromCsv(text)); }

TEST(Timeline, showsThePipelineFilling) {
  EXPECT_EQ(llvm::cantFail(drawTimeline(csv("0F0,0F1,0F2\n1F0,1F1,1F2\n"), chainPlan({0, 1}))),
            "  rank 0  0F0  0F1  0F2    .\n"
            "  rank 1    .  1F0  1F1  1F2\n");
}

TEST(Timeline, wrapsIntoBlocks) {
  EXPECT_EQ(llvm::cantFail(drawTimeline(csv("0F0,0F1,0F2\n"), chainPlan({0}), 18)),
            "steps 0 to 1\n"
            "  rank 0  0F0  0F1\n"
            "\n"
            "steps 2 to 2\n"
            "  rank 0  0F2\n");
}

TEST(Timeline, refusesWhatCannotRun) {
  EXPECT_TRUE(failedWith(drawTimeline(csv("0F0\n1F1\n"), chainPlan({0, 1})), ExitCode::BadArtifact,
                         "rank 1: 1F1 can never start"));
  EXPECT_TRUE(failedWith(drawTimeline(csv("9F0\n"), chainPlan({0})), ExitCode::BadArtifact,
                         "9F0: expected a forward of one of 1 stages"));
  EXPECT_TRUE(failedWith(drawTimeline(csv("0B0\n"), chainPlan({0})), ExitCode::BadArtifact,
                         "0B0: expected a forward"));
}

TEST(Markup, escapesWhatMarkupMustNotHold) {
  EXPECT_EQ(markupEscaped("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(markupEscaped("Schicht \xC3\xBC \xE5\xB1\xA4"), "Schicht \xC3\xBC \xE5\xB1\xA4");
  const std::string instead = "\xEF\xBF\xBD";
  EXPECT_EQ(markupEscaped(llvm::StringRef("\x01\n\x7F\0", 4)),
            instead + instead + instead + instead);
  EXPECT_EQ(markupEscaped("\xC2\x85"), instead);                  // a control character
  EXPECT_EQ(markupEscaped("\xEF\xBF\xBF"), instead);              // no character
  EXPECT_EQ(markupEscaped("\xC3("), instead + "(");               // a letter that breaks off
  EXPECT_EQ(markupEscaped("x\xE5\xB1"), "x" + instead + instead); // the same at the end
}

TEST(Markup, shortensByLetters) {
  EXPECT_EQ(shortened("encoder", 7), "encoder");
  EXPECT_EQ(shortened("encoder", 4), "enc\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xBC\xC3\xBC\xC3\xBC", 3), "\xC3\xBC\xC3\xBC\xC3\xBC");
  EXPECT_EQ(shortened("\xC3\xBC\xC3\xBC\xC3\xBC", 2), "\xC3\xBC\xE2\x80\xA6");
}

TEST(Markup, tablesKeepTheirText) {
  Table table({{"name"}, {"bytes", Table::Right}});
  table.addRow({"<b>", "1"});
  table.addRow({"no bytes"});
  EXPECT_EQ(htmlTable(table),
            "<div class=\"wide\"><table>\n<thead><tr><th>name</th><th class=\"n\">bytes</th></tr>\n"
            "</thead>\n<tbody>\n<tr><td>&lt;b&gt;</td><td class=\"n\">1</td></tr>\n"
            "<tr><td>no bytes</td><td class=\"n\"></td></tr>\n</tbody>\n</table></div>\n");
}

} // namespace
} // namespace pipec

#include "tools/report/PlanPage.h"

#include "ir/plan/PlanNames.h"
#include "ir/plan/WholeBackwards.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/report/Markup.h"
#include "tools/report/PageStyle.h"
#include "tools/report/PlanReport.h"
#include "tools/report/ScheduleSvg.h"
#include "tools/report/StageGraph.h"
#include "tools/report/TrainingFacts.h"

#include <fmt/ranges.h>

namespace pipec {
namespace {

class PageWriter {
public:
  explicit PageWriter(const PlanPage &page)
      : page_(page), plan_(page.artifact.plan), timing_(page.timing) {}

  std::string write() {
    head();
    cards();
    graph();
    timeline();
    if (page_.measured)
      measured(*page_.measured);
    tables();
    proof();
    modules();
    about();
    return html_ + "</main>\n</body>\n</html>\n";
  }

private:
  void head() {
    const std::string name = markupEscaped(page_.name);
    html_ += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             // Whatever a name contains: nothing runs, nothing is fetched.
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'\">\n<title>" +
             name + "</title>\n<style>" + pageStyle() + "</style>\n</head>\n<body>\n<main>\n";
    html_ += "<header>\n<h1>" + name + "</h1>\n";
    html_ += fmt::format("<p class=\"soft\">{} on {}, {}, {} by default, compiled for {}. {}</p>\n",
                         counted(plan_.stages.size(), "stage"), counted(plan_.ranks, "rank"),
                         markupEscaped(plan_.scheduleName),
                         counted(static_cast<size_t>(plan_.microBatches), "micro-batch"),
                         plan_.mode == Mode::Train ? "training" : "inference", batch());
    html_ += "<nav><a href=\"#stages\">Stages</a><a href=\"#schedule\">Schedule</a>" +
             std::string(page_.measured ? "<a href=\"#measured\">Measured</a>" : "") +
             "<a href=\"#channels\">Channels</a><a href=\"#checks\">Proof</a>"
             "<a href=\"#modules\">Modules</a><a href=\"#about\">About</a></nav>\n</header>\n";
  }

  std::string batch() const {
    const Signature &signature = plan_.signature;
    if (!signature.batchSymbolic)
      return fmt::format("The model fixes the batch: micro-batches of {} only.",
                         counted(static_cast<size_t>(signature.batchSize), "sample"));
    if (signature.batchSize)
      return fmt::format("Any batch size; sizes below are those of the example's micro-batch, {}.",
                         counted(static_cast<size_t>(signature.batchSize), "sample"));
    return "Any batch size; compiled without an example, so the sizes of values are unknown.";
  }

  void card(const std::string &value, const std::string &what) {
    html_ += fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n",
                         markupEscaped(value), markupEscaped(what));
  }

  std::string costs() const {
    return timing_.atOnce == 0   ? "the analytic cost model"
           : timing_.atOnce == 1 ? "costs.json"
                                 : "measured costs";
  }
  bool whole() const { return timing_.microBatches == plan_.microBatches; }
  std::string microBatches() const {
    return counted(static_cast<size_t>(timing_.microBatches), "micro-batch");
  }

  void cards() {
    int64_t parameters = 0, moved = 0, most = 0, work = 0;
    size_t busiest = 0, values = 0, skips = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      parameters += plan_.stages[s].parameterBytes;
      work += timing_.stageNs[s];
      if (timing_.stageNs[s] > most) {
        most = timing_.stageNs[s];
        busiest = s;
      }
    }
    for (const Channel &channel : plan_.channels)
      if (channel.kind == Channel::Kind::Activation) {
        moved += bytesOf(plan_, channel).value_or(0) * static_cast<int64_t>(channel.to.size());
        ++values;
        skips += channel.skip;
      }
    html_ += "<div class=\"cards\">\n";
    if (timing_.known)
      card(formatDuration(timing_.timing.makespan),
           "step of " + microBatches() + ", predicted from " + costs());
    else
      card(fmt::format("{:.4g} steps", double(timing_.timing.makespan) / double(PlanTiming::kStep)),
           "for " + microBatches() + " with equal times for all stages: this plan has no costs");
    card(fmt::format("{:.1f} %", 100 * timing_.timing.bubbleMakespan()),
         "bubble: idle time of the busiest rank");
    if (timing_.known && work > 0)
      card(fmt::format("{:.2f}x", double(most) * double(plan_.stages.size()) / double(work)),
           fmt::format("of the average in the slowest stage, {}", busiest));
    card(formatBytes(parameters), "of parameters in all stages");
    card(formatBytes(moved),
         fmt::format("sent per micro-batch, on {}{}", counted(values, "channel"),
                     skips ? fmt::format(", {} of them with skips", skips) : ", no skips"));
    html_ += "</div>\n";
  }

  void section(const char *id, const char *title) {
    html_ += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n", id, title);
  }
  void note(const std::string &words) { html_ += "<p class=\"soft\">" + words + "</p>\n"; }

  void graph() {
    section("stages", "Stages and channels");
    html_ += "<div class=\"wide\">\n" + drawStageGraph(plan_, timing_) + "</div>\n";
    auto key = [&](const char *colour, const char *classes, const char *words) {
      html_ += fmt::format("<span class=\"{}\" style=\"color:var(--{})\"><i>{}</i></span>", classes,
                           colour, words);
    };
    html_ += "<div class=\"keys\">";
    if (!plan_.channels.empty())
      key("next", "", "to the next stage");
    if (llvm::any_of(plan_.channels, [](const Channel &channel) { return channel.skip; }))
      key("skip", "", "skip: straight to a later stage");
    if (!plan_.ties.empty())
      key("weight", "", "dashed: a weight that is sent; dotted: a weight with copies");
    if (timing_.known)
      key("load", "bar",
          plan_.training ? "time of a micro-batch, forward and backward; the line is the average"
                         : "time of a forward; the line is the average");
    key("parameters", "bar", "parameters");
    key("buffers", "bar", "buffers and constants");
    if (!plan_.channels.empty())
      key("values", "bar", "values received");
    html_ += "</div>\n</section>\n";
  }

  void timeline() {
    section("schedule", "Schedule");
    const Timing &timing = timing_.timing;
    if (timing_.known)
      note(fmt::format(
          "Prediction for {}: a step takes {}; the lower bound for these stages on these ranks is "
          "{}. Times are from {}; transfers are between threads of one process.",
          microBatches(), formatDuration(timing.makespan), formatDuration(timing_.lowerBound),
          sourceOfTimes(plan_, timing_)));
    else
      note("This plan has no costs, so every stage is drawn with one step and transfers take no "
           "time. Compile with <code>--cost</code> to see predicted times.");
    if (!whole())
      note(fmt::format("Shown are the first {} of {}.", timing_.microBatches, plan_.microBatches));
    picture(timing_.schedule, timing, timing_.known ? 0 : PlanTiming::kStep);
    html_ += "<h3>Ranks</h3>\n" + htmlTable(ranksTable()) + "</section>\n";
  }

  void picture(const Schedule &schedule, const Timing &timing, int64_t step) {
    SvgText text;
    text.inPage = true;
    text.step = step;
    for (int64_t busy : timing.busy)
      text.notes.push_back(
          fmt::format("idle {:.1f} %",
                      timing.makespan ? 100 - 100 * double(busy) / double(timing.makespan) : 0.0));
    html_ += "<div class=\"wide timeline\">\n" + drawSvg(schedule, timing, text) + "</div>\n";
  }

  static std::string ofReplicas(const MeasuredRun &run) {
    if (run.replicas == 1)
      return "";
    return fmt::format(" in each of {} replicas, whose ranks follow one another, {} each",
                       run.replicas, run.actions.ranks.size() / static_cast<size_t>(run.replicas));
  }

  void measured(const MeasuredRun &run) {
    section("measured", "A measured step");
    note(fmt::format(
        "The last step of a run under {}{} with {}{}: {} from its first action to its last.",
        markupEscaped(run.schedule),
        run.batches > 1 ? fmt::format(", of its {} batches the last one,", run.batches) : "",
        counted(static_cast<size_t>(run.microBatches), "micro-batch"), ofReplicas(run),
        formatDuration(run.measured.makespan)));
    picture(run.actions, run.measured, 0);
    note(fmt::format("The same step simulated with the times of its stages: {}. What the "
                     "measured step needs beyond that is the cost of the runtime, of sums over "
                     "stages and the norm, and of ranks that share cores.",
                     formatDuration(run.predicted.makespan)));
    picture(run.actions, run.predicted, 0);
    html_ += "</section>\n";
  }

  Table ranksTable() const {
    Table table({{"rank"},
                 {"stages"},
                 {"busy", Table::Right},
                 {"parameters", Table::Right},
                 {"most bytes of values in flight", Table::Right}});
    for (size_t r = 0; r < plan_.ranks; ++r) {
      std::vector<size_t> stages;
      int64_t parameters = 0;
      for (size_t s = 0; s < plan_.stages.size(); ++s)
        if (plan_.stages[s].rank == r) {
          stages.push_back(s);
          parameters += plan_.stages[s].parameterBytes;
        }
      const int64_t busy = timing_.timing.busy[r];
      table.addRow(
          {std::to_string(r), fmt::format("{}", fmt::join(stages, ", ")),
           timing_.known ? formatDuration(busy) : fmt::format("{} steps", busy / PlanTiming::kStep),
           formatBytes(parameters), formatBytes(timing_.inFlight[r])});
    }
    return table;
  }

  void table(const char *title, const Table &table) {
    if (!table.empty())
      html_ += fmt::format("<h3>{}</h3>\n", title) + htmlTable(table);
  }

  void tables() {
    section("channels", "All of it as text");
    table("Stages", stagesTable(plan_));
    table("Channels", channelsTable(plan_));
    if (plan_.channels.empty())
      note("There are no channels.");
    table("Ties", tiesTable(plan_));
    training();
    table("Inputs", inputsTable(plan_.signature));
    table("Results", outputsTable(plan_.signature));
    html_ += "</section>\n";
  }

  void training() {
    table("Training stages", trainingStagesTable(plan_, page_.rows));
    for (const std::string &sentence : wholeBackwards(plan_))
      note(markupEscaped(sentence));
    table("Trained parameters", trainedParametersTable(plan_));
  }

  void proof() {
    section("checks", "What was proved and tested");
    note("Checked on the files of this artifact when this page was made, without running any of "
         "the model:");
    html_ += "<div class=\"wide\"><table>\n<thead><tr><th>check</th><th>result</th><th>what</th>"
             "</tr></thead>\n<tbody>\n";
    for (const CheckStep &step : page_.check.steps) {
      const bool failed = step.result == CheckStep::Result::Failed,
                 passed = step.result == CheckStep::Result::Passed;
      html_ += fmt::format("<tr><td>{}</td><td class=\"{}\">{}</td><td>{}</td></tr>\n",
                           markupEscaped(step.name),
                           failed   ? "failed"
                           : passed ? "ok"
                                    : "soft",
                           failed   ? "FAILED"
                           : passed ? "ok"
                                    : "skipped",
                           markupEscaped(step.detail));
    }
    html_ += "</tbody>\n</table></div>\n";
    if (!plan_.obligations.empty()) {
      html_ += fmt::format(
          "<h3>Conditions of the rewrites</h3>\n<details{}><summary>{}: values recomputed instead "
          "of sent, and facts about the model that each run checks on its inputs</summary>\n<ul>\n",
          plan_.obligations.size() <= 12 ? " open" : "",
          counted(plan_.obligations.size(), "obligation"));
      for (const Obligation &obligation : plan_.obligations)
        html_ += "<li><code>" + markupEscaped(toString(obligation)) + "</code></li>\n";
      html_ += "</ul>\n</details>\n";
    }
    note("Not checked here: that the source is the file you expect (<code>pipe-check --against "
         "MODEL.pt</code>), and the numbers on recorded inputs (<code>pipe-check --case "
         "DIR</code>).");
    html_ += "</section>\n";
  }

  void modules() {
    section("modules", "Modules");
    if (page_.modules.costNs == 0)
      note("Modules have no costs here: costs.json is in artifacts whose costs were measured or "
           "read from a table.");
    html_ += htmlTree(page_.modules) + "</section>\n";
  }

  void about() {
    section("about", "About");
    html_ += "<dl>\n";
    auto row = [&](const char *what, const std::string &value) {
      html_ += fmt::format("<dt>{}</dt><dd><code>{}</code></dd>\n", what, markupEscaped(value));
    };
    row("artifact", page_.artifact.id);
    row("source", plan_.sourceDigest);
    row("format", fmt::format("{}.{}", plan_.major, plan_.minor));
    row("made by", "pipec " + plan_.toolVersion + " with LibTorch " + plan_.torchVersion);
    row("method", plan_.signature.method);
    row("chain", plan_.chain ? "yes: PyTorch's own pipeline stages can run it"
                             : "no: a value or weight goes to a stage other than the next, which "
                               "PyTorch's own pipeline stages cannot do");
    html_ += "</dl>\n</section>\n";
  }

  const PlanPage &page_;
  const Plan &plan_;
  const PlanTiming &timing_;
  std::string html_;
};

} // namespace

std::string htmlPage(const PlanPage &page) { return PageWriter(page).write(); }

} // namespace pipec

#include "tools/report/StageGraph.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "tools/report/GraphLines.h"
#include "tools/report/Markup.h"
#include "tools/report/PlanReport.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

namespace pipec {
namespace {

constexpr size_t kMostTallStages = 12; // more of them stand closer together
constexpr double kTrack = 17, kBoxWidth = 340, kBar = 230, kColumn = 36, kHead = 48, kLetter = 6;

using Line = GraphLine;

class StageGraph {
public:
  StageGraph(const Plan &plan, const PlanTiming &timing)
      : plan_(plan), timing_(timing), lines_(graphLines(plan)) {
    const bool tall = plan.stages.size() <= kMostTallStages;
    boxHeight_ = tall ? 74 : 36;
    gap_ = tall ? 42 : 26;
    size_t tracks = 0;
    for (const Line &line : lines_)
      if (line.kind != Line::Kind::Next) {
        tracks = std::max(tracks, line.track + 1);
        departures_[line.from].insert(line.track);
        for (size_t stage : line.to)
          arrivals_[stage].insert(line.track);
      }
    boxLeft_ = 14 + (tracks ? double(tracks) * kTrack + 18 : 0);
    load_ = boxLeft_ + kBoxWidth + kColumn;
    memory_ = load_ + kBar + kColumn;
  }

  std::string draw() {
    const double width = memory_ + kBar + 14,
                 height = kHead + double(plan_.stages.size()) * (boxHeight_ + gap_) - gap_ + 12;
    out_ = fmt::format("<svg class=\"graph\" role=\"img\" aria-label=\"stages and channels\" "
                       "viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\">\n",
                       width, height);
    heads();
    for (const Line &line : lines_)
      line.kind == Line::Kind::Next ? drawNext(line) : drawTrack(line);
    bars();
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      box(s);
    return out_ + "</svg>\n";
  }

private:
  double top(size_t stage) const { return kHead + double(stage) * (boxHeight_ + gap_); }

  void text(double x, double y, const char *classes, llvm::StringRef words,
            const std::string &more = "") {
    out_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", classes, x, y,
                        more, markupEscaped(words));
  }

  void heads() {
    text(boxLeft_, 18, "head", "stages and what goes between them");
    text(load_, 18, "head", "load");
    text(load_, 34, "soft",
         timing_.known ? "forward of a micro-batch, estimated" : "not estimated by this compile");
    text(memory_, 18, "head", "memory");
    text(memory_, 34, "soft", "parameters, buffers, values received");
  }

  /// Thicker for more bytes: a point for each factor of 32 above a kilobyte.
  static double thickness(const Line &line) {
    return std::clamp(1.5 + std::log2(double(std::max<int64_t>(1, line.bytes)) / 1024) / 5, 1.5,
                      5.0);
  }
  static const char *classOf(Line::Kind kind) {
    switch (kind) {
    case Line::Kind::Next:
      return "next";
    case Line::Kind::Skip:
      return "skip";
    case Line::Kind::Weight:
      return "weight";
    case Line::Kind::Tied:
      return "tied";
    }
    return "";
  }

  void stroke(const Line &line, const std::string &path, const std::string &heads) {
    out_ += fmt::format("<g class=\"line {}\"><title>{}</title><path class=\"hit\" d=\"{}\"/>"
                        "<path class=\"way\" stroke-width=\"{:.1f}\" d=\"{}\"/>{}</g>\n",
                        classOf(line.kind), markupEscapedLines(line.texts), path, thickness(line),
                        path, heads);
  }

  /// A tooltip separates its parts by a line feed.
  static std::string markupEscapedLines(const std::vector<std::string> &texts) {
    std::vector<std::string> lines;
    for (const std::string &line : texts)
      lines.push_back(markupEscaped(line));
    return llvm::join(lines, "\n");
  }

  static std::string arrow(double x, double y, bool down) {
    return down ? fmt::format("<path class=\"tip\" d=\"M{:.1f} {:.1f}l-5 -9h10z\"/>", x, y)
                : fmt::format("<path class=\"tip\" d=\"M{:.1f} {:.1f}l-9 -5v10z\"/>", x, y);
  }

  void drawNext(const Line &line) {
    const double x = boxLeft_ + 40, from = top(line.from) + boxHeight_, to = top(line.from + 1);
    stroke(line, fmt::format("M{:.1f} {:.1f}V{:.1f}", x, from, to - 8), arrow(x, to - 1, true));
    text(x + 14, (from + to) / 2 + 4, "on", shortened(line.label(), 64));
  }

  /// Lines at one box cross least if the outer tracks leave it highest and return lowest.
  double leaves(size_t stage, size_t track) const {
    return top(stage) + boxHeight_ * (0.9 - 0.36 * place(departures_, stage, track));
  }
  double arrives(size_t stage, size_t track) const {
    return top(stage) + boxHeight_ * (0.12 + 0.3 * place(arrivals_, stage, track));
  }
  /// The position of a track among those at this box: from 0, the innermost, to 1.
  static double place(const std::map<size_t, std::set<size_t>> &ends, size_t stage, size_t track) {
    const std::set<size_t> &tracks = ends.at(stage);
    const auto inner = std::distance(tracks.begin(), tracks.find(track));
    return double(inner + 1) / double(tracks.size() + 1);
  }

  void drawTrack(const Line &line) {
    const double x = boxLeft_ - 20 - double(line.track) * kTrack,
                 from = leaves(line.from, line.track);
    std::string path, tips;
    for (size_t stage : line.to) {
      const double to = arrives(stage, line.track);
      path += fmt::format("M{0:.1f} {1:.1f}H{2:.1f}q-6 0 -6 6V{3:.1f}q0 6 6 6H{4:.1f}", boxLeft_,
                          from, x + 6, to - 6, boxLeft_ - (line.kind == Line::Kind::Tied ? 0 : 8));
      if (line.kind != Line::Kind::Tied)
        tips += arrow(boxLeft_ - 1, to, false);
    }
    stroke(line, path, tips);
    const double last = arrives(line.to.back(), line.track);
    const auto letters = static_cast<size_t>(std::max(0.0, (last - from - 20) / kLetter));
    if (letters < 4)
      return;
    const double y = (from + last) / 2;
    text(x - 4, y, "along", shortened(line.label(), letters),
         fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x - 4, y));
  }

  std::string portsOf(const StagePlan &stage) const {
    std::string words;
    std::vector<std::string> reads, makes;
    for (const StageInput &input : stage.inputs)
      if (input.kind == StageInput::Kind::UserInput)
        reads.push_back(input.name);
    for (const StageOutput &output : stage.outputs)
      for (size_t leaf : output.leaves)
        makes.push_back(outputPath(plan_.signature, leaf));
    if (!reads.empty())
      words += ", reads " + llvm::join(reads, " ");
    if (!makes.empty())
      words += ", makes output " + llvm::join(makes, " ");
    return words;
  }

  /// Shortens long names to their ends, which say more.
  static std::string modulesIn(const StagePlan &stage, size_t letters) {
    const std::string all = modulesOf(stage);
    if (all.size() <= letters || stage.firstModule == stage.lastModule)
      return shortened(all, letters);
    auto end = [&](llvm::StringRef name) {
      const size_t room = letters / 2 - 2;
      const size_t dot = name.size() <= room ? 0 : name.find('.', name.size() - room);
      if (dot == 0 || dot == llvm::StringRef::npos)
        return shortened(name, room);
      return "\xE2\x80\xA6" + name.drop_front(dot + 1).str();
    };
    return end(stage.firstModule) + " .. " + end(stage.lastModule);
  }

  void box(size_t s) {
    const StagePlan &stage = plan_.stages[s];
    const double y = top(s), x = boxLeft_ + 16;
    const std::string modules = modulesOf(stage),
                      nodes = counted(static_cast<size_t>(stage.nodes), "node") + portsOf(stage);
    out_ += fmt::format(
        "<g class=\"stage\"><title>stage {} on rank {}: {}\n{}\n{} of parameters, {}</title>\n", s,
        stage.rank, markupEscaped(modules), markupEscaped(nodes), formatBytes(stage.parameterBytes),
        markupEscaped(stage.file));
    out_ += fmt::format("<rect class=\"box\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" "
                        "height=\"{:.0f}\" rx=\"7\"/>\n",
                        boxLeft_, y, kBoxWidth, boxHeight_);
    // Neighbouring ranks get very different colours.
    out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"5\" height=\"{:.0f}\" rx=\"2.5\" "
                        "fill=\"hsl({} 48% 52%)\"/>\n",
                        boxLeft_ + 5, y + 6, boxHeight_ - 12, (210 + stage.rank * 137) % 360);
    const double right = boxLeft_ + kBoxWidth - 12;
    if (boxHeight_ > 50) {
      text(x, y + 22, "name", "stage " + std::to_string(s));
      text(right, y + 22, "soft end", "rank " + std::to_string(stage.rank));
      text(x, y + 42, "ink", modulesIn(stage, 48));
      text(x, y + 61, "soft", shortened(nodes, 56));
    } else {
      text(x, y + 23, "name", "stage " + std::to_string(s));
      text(x + 74, y + 23, "ink", modulesIn(stage, 30));
      text(right, y + 23, "soft end", "rank " + std::to_string(stage.rank));
    }
    out_ += "</g>\n";
  }

  // --- bars

  int64_t receivedBy(size_t s) const {
    int64_t bytes = 0;
    for (const StageInput &input : plan_.stages[s].inputs)
      if (input.kind == StageInput::Kind::Channel)
        bytes += bytesOf(plan_, plan_.channels[input.index]).value_or(0);
    for (const StageAttribute &attribute : plan_.stages[s].attributes)
      if (attribute.channel)
        bytes += attribute.bytes;
    return bytes;
  }

  /// Parameters, other contents of the stage's file, received values.
  std::array<int64_t, 3> memoryOf(size_t s) const {
    int64_t others = 0;
    for (const StageAttribute &attribute : plan_.stages[s].attributes)
      if (!attribute.channel && attribute.kind != AttributeKind::Parameter)
        others += attribute.bytes;
    return {plan_.stages[s].parameterBytes, others, receivedBy(s)};
  }

  void bar(double x, double y, double width, const char *kind, const std::string &what) {
    if (width > 0)
      out_ += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                          "height=\"9\"><title>{}</title></rect>\n",
                          kind, x, y, width, markupEscaped(what));
  }

  void bars() {
    int64_t work = 0, most = 1, mostHeld = 1;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      work += timing_.stageNs[s];
      most = std::max(most, timing_.stageNs[s]);
      const std::array<int64_t, 3> held = memoryOf(s);
      mostHeld = std::max(mostHeld, held[0] + held[1] + held[2]);
    }
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const double y = top(s) + boxHeight_ / 2 + 3;
      auto track = [&](double x) {
        out_ += fmt::format("<rect class=\"lane\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" "
                            "height=\"9\"/>\n",
                            x, y, kBar);
      };
      if (timing_.known) {
        const std::string time =
            fmt::format("{}, {:.1f} %", formatDuration(timing_.stageNs[s]),
                        100.0 * double(timing_.stageNs[s]) / double(std::max<int64_t>(1, work)));
        text(load_, y - 6, "ink", time);
        track(load_);
        bar(load_, y, kBar * double(timing_.stageNs[s]) / double(most), "load", time);
      }
      const std::array<int64_t, 3> held = memoryOf(s);
      text(memory_, y - 6, "ink", formatBytes(held[0] + held[1] + held[2]));
      track(memory_);
      double x = memory_;
      const char *const kinds[] = {"parameters", "buffers", "values"};
      const char *const words[] = {"parameters", "buffers and constants",
                                   "values received for a micro-batch"};
      for (size_t i = 0; i < held.size(); ++i) {
        const double width = kBar * double(held[i]) / double(mostHeld);
        bar(x, y, width, kinds[i], formatBytes(held[i]) + " of " + words[i]);
        x += width;
      }
    }
    if (!timing_.known || plan_.stages.size() < 2)
      return;
    const double average = load_ + kBar * double(work) / double(plan_.stages.size()) / double(most);
    out_ += fmt::format("<g><title>average of the stages</title><path class=\"average\" "
                        "d=\"M{:.1f} {:.1f}V{:.1f}\"/></g>\n",
                        average, kHead + boxHeight_ / 2 - 2,
                        top(plan_.stages.size() - 1) + boxHeight_ / 2 + 17);
  }

  const Plan &plan_;
  const PlanTiming &timing_;
  const std::vector<Line> lines_;
  std::map<size_t, std::set<size_t>> departures_, arrivals_; // per stage: tracks
  double boxHeight_ = 0, gap_ = 0, boxLeft_ = 0, load_ = 0, memory_ = 0;
  std::string out_;
};

} // namespace

std::string drawStageGraph(const Plan &plan, const PlanTiming &timing) {
  return StageGraph(plan, timing).draw();
}

} // namespace pipec

#include "tools/report/GraphLines.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "tools/report/PlanReport.h"

#include <fmt/format.h>

#include <map>

namespace pipec {
namespace {

using Line = GraphLine;

class LineFinder {
public:
  explicit LineFinder(const Plan &plan) : plan_(plan) {
    for (size_t c = 0; c < plan.channels.size(); ++c)
      add(plan.channels[c]);
    for (const Tie &tie : plan.ties)
      if (tie.mode == Tie::Mode::Replicate && tie.stages.size() > 1) {
        const std::string text = "tied " + llvm::join(tie.names, ", ") + ": a copy per stage";
        note(Line::Kind::Tied, tie.stages.front(),
             {std::next(tie.stages.begin()), tie.stages.end()}, text, "tied " + tie.names.front(),
             std::nullopt);
      }
  }

  std::vector<Line> lines() {
    std::vector<Line> all;
    for (auto &[key, line] : lines_)
      all.push_back(std::move(line));
    giveTracks(all);
    return all;
  }

private:
  using Key = std::tuple<size_t, Line::Kind, std::vector<size_t>>;

  void add(const Channel &channel) {
    const std::optional<int64_t> bytes = bytesOf(plan_, channel);
    const bool weight = channel.kind == Channel::Kind::Weight;
    const std::string kind = kindOf(plan_, channel);
    const std::string type = weight ? kind
                             : channel.type == "Tensor" && channel.tensor.known
                                 ? shapeOf(channel.tensor)
                                 : channel.type;
    // A plain number is shown without its bytes, a tensor of unknown size with a note.
    const bool plain = !weight && holdsNoTensor(channel.type);
    const std::string size = bytes ? ", " + formatBytes(*bytes) : plain ? "" : ", size not known";
    std::vector<std::string> readers;
    std::vector<size_t> far;
    bool next = false;
    for (const PortRef &to : channel.to) {
      const std::string name = std::to_string(to.stage);
      if (readers.empty() || readers.back() != name)
        readers.push_back(name);
      if (to.stage == channel.from.stage + 1 && !weight)
        next = true;
      else if (far.empty() || far.back() != to.stage)
        far.push_back(to.stage);
    }
    const std::string text =
        fmt::format("{}: stage {} to {}: {}{}{}", channel.name, channel.from.stage,
                    llvm::join(readers, ", "), type, size, channel.skip && !weight ? ", skip" : "");
    const std::string brief = fmt::format("{}{}: {}", channel.name, weight ? " weight" : "",
                                          weight ? size.substr(2) : type + size);
    if (next)
      note(Line::Kind::Next, channel.from.stage, {channel.from.stage + 1}, text, brief,
           plain ? 0 : bytes);
    if (!far.empty())
      note(weight ? Line::Kind::Weight : Line::Kind::Skip, channel.from.stage, far, text, brief,
           plain ? 0 : bytes);
  }

  void note(Line::Kind kind, size_t from, const std::vector<size_t> &to, const std::string &text,
            const std::string &brief, std::optional<int64_t> bytes) {
    Line &line = lines_[{from, kind, to}];
    line.kind = kind;
    line.from = from;
    line.to = to;
    line.texts.push_back(text);
    line.short_.push_back(brief);
    line.bytes += bytes.value_or(0);
    line.known &= bytes.has_value();
  }

  /// Short lines are close to the boxes; lines on one track do not overlap.
  static void giveTracks(std::vector<Line> &lines) {
    std::vector<Line *> far;
    for (Line &line : lines)
      if (line.kind != Line::Kind::Next)
        far.push_back(&line);
    llvm::stable_sort(far, [](const Line *a, const Line *b) {
      return a->to.back() - a->from < b->to.back() - b->from;
    });
    std::vector<std::vector<const Line *>> tracks;
    for (Line *line : far) {
      auto isFree = [&](const std::vector<const Line *> &track) {
        return llvm::all_of(track, [&](const Line *other) {
          return line->to.back() <= other->from || other->to.back() <= line->from;
        });
      };
      auto found = llvm::find_if(tracks, isFree);
      line->track = static_cast<size_t>(found - tracks.begin());
      if (found == tracks.end())
        tracks.emplace_back();
      tracks[line->track].push_back(line);
    }
  }

  const Plan &plan_;
  std::map<Key, Line> lines_;
};

} // namespace

std::string GraphLine::label() const {
  if (short_.size() == 1)
    return short_[0];
  const std::string number =
      counted(short_.size(), kind == Kind::Weight || kind == Kind::Tied ? "weight" : "value");
  return known && bytes ? number + ", " + formatBytes(bytes) : number;
}

std::vector<GraphLine> graphLines(const Plan &plan) { return LineFinder(plan).lines(); }

} // namespace pipec

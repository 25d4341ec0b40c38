#include "tools/report/TimeChart.h"

#include "ir/support/Error.h"
#include "tools/report/Table.h"

#include <algorithm>
#include <cmath>

namespace pipec {
namespace {

constexpr size_t kMostBlocks = 8; // the shortest action is not written out at any price

struct ChartCell {
  size_t first = 0, last = 0; // columns
  ActionKind kind = ActionKind::Forward;
  std::string text;
};

const char *colourOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return "\033[30;44m";
  case ActionKind::FullBackward:
    return "\033[30;42m";
  case ActionKind::InputGrad:
    return "\033[30;46m";
  case ActionKind::WeightGrad:
    return "\033[30;43m";
  default:
    return "\033[30;45m";
  }
}

class TimeChart {
public:
  TimeChart(const Schedule &schedule, const Timing &timing, const TimeChartOptions &options)
      : schedule_(schedule), timing_(timing), options_(options) {
    label_ = fmt::format("  rank {}  ", schedule.ranks.size() - 1).size();
    perBlock_ = std::max<size_t>(20, options.width - std::min(options.width, label_));
    perNs_ = scale();
    columns_ = column(timing.makespan);
  }

  std::string draw() const {
    std::string text;
    const size_t blocks = std::max<size_t>(1, (columns_ + perBlock_ - 1) / perBlock_);
    for (size_t b = 0; b < blocks; ++b) {
      const size_t first = b * perBlock_, last = std::min(columns_, first + perBlock_);
      if (blocks > 1)
        text +=
            fmt::format("{}from {}\n", b ? "\n" : "", first ? formatDuration(timeOf(first)) : "0");
      for (size_t r = 0; r < schedule_.ranks.size(); ++r)
        text += line(r, first, last);
    }
    if (shortens_)
      text += fmt::format("  F3, F: names shortened to fit, without stage or number; {}\n",
                          options_.inFull);
    return text;
  }

private:
  int64_t length(size_t rank, size_t i) const {
    return timing_.ranks[rank][i].end - timing_.ranks[rank][i].start;
  }

  /// Columns per nanosecond: every name fits if that needs at most kMostBlocks blocks.
  double scale() const {
    double scale = 0;
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      for (size_t i = 0; i < schedule_.ranks[r].size(); ++i)
        if (isCompute(schedule_.ranks[r][i].kind) && length(r, i) > 0)
          scale = std::max(scale, double(toString(schedule_.ranks[r][i]).size() + 1) /
                                      double(length(r, i)));
    const double span = double(std::max<int64_t>(1, timing_.makespan));
    return std::min(scale, double(kMostBlocks * perBlock_) / span);
  }

  size_t column(int64_t time) const {
    return static_cast<size_t>(std::llround(double(time) * perNs_));
  }
  int64_t timeOf(size_t column) const { return std::llround(double(column) / perNs_); }

  /// A shorter form of a name: "F12", else "F". Neither is the name of another action, because
  /// names begin with their stage.
  std::string shortName(const Action &action, size_t columns) const {
    shortens_ |= columns > 0;
    const std::string name = toString(action);
    const llvm::StringRef behindStage = llvm::StringRef(name).ltrim("0123456789");
    return (behindStage.size() <= columns ? behindStage : behindStage.take_front(columns ? 1 : 0))
        .str();
  }

  std::string line(size_t rank, size_t first, size_t last) const {
    // The character and the colour of each column.
    std::string row(last - first, '.');
    std::vector<const char *> colours(row.size(), nullptr);
    size_t end = first; // of the rank's work: after it nothing is drawn
    std::string beyond; // of the last name
    for (size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const Action &action = schedule_.ranks[rank][i];
      if (!isCompute(action.kind))
        continue;
      const size_t from = column(timing_.ranks[rank][i].start),
                   to = column(timing_.ranks[rank][i].end);
      std::string name = toString(action);
      // The halves of a pair that share their time are in one box.
      const bool shared = action.withNext && i + 1 < schedule_.ranks[rank].size() &&
                          timing_.ranks[rank][i + 1].start == timing_.ranks[rank][i].start;
      if (shared)
        name += "+" + toString(schedule_.ranks[rank][++i]);
      end = std::max(end, std::min(last, to));
      if (to <= first || from >= last || to == from)
        continue;
      const size_t shownFrom = std::max(from, first); // the name again where a block begins
      // The last column is a gap between neighbours, where there is room for one.
      const bool hasGap = to - from > 1;
      // A part of a name would be that of another action, 1F1 of 1F12: what fits in its box, but
      // not on this side of the block's end, is written beyond it.
      const size_t room = hasGap ? to - 1 : to, nameEnd = shownFrom + name.size();
      const bool fits = nameEnd <= std::min(room, last);
      if (!fits && nameEnd <= room && from >= first)
        beyond = name.substr(last - shownFrom);
      else if (!fits)
        name = shortName(action, std::min(room, last) - shownFrom);
      for (size_t c = shownFrom; c < std::min(to, last); ++c) {
        const size_t at = c - shownFrom;
        const bool gap = hasGap && c + 1 == to;
        row[c - first] = gap ? ' ' : at < name.size() ? name[at] : '=';
        colours[c - first] = gap ? nullptr : colourOf(action.kind);
      }
    }
    row.resize(std::max(end, first) - first);
    colours.resize(row.size());
    row += beyond;
    colours.resize(row.size(), colours.empty() ? nullptr : colours.back());
    std::string text = fmt::format("{:<{}}", fmt::format("  rank {}", rank), label_);
    if (!options_.colour)
      return llvm::StringRef(text + row).rtrim(' ').str() + "\n";
    const char *now = nullptr;
    for (size_t c = 0; c < row.size(); ++c) {
      if (colours[c] != now)
        text += colours[c] ? colours[c] : "\033[0m";
      now = colours[c];
      text += row[c];
    }
    return text + (now ? "\033[0m\n" : "\n");
  }

  const Schedule &schedule_;
  const Timing &timing_;
  const TimeChartOptions &options_;
  size_t label_ = 0, perBlock_ = 0, columns_ = 0;
  double perNs_ = 0;
  mutable bool shortens_ = false; // a name, while drawing
};

} // namespace

std::string drawTimeChart(const Schedule &schedule, const Timing &timing,
                          const TimeChartOptions &options) {
  return TimeChart(schedule, timing, options).draw();
}

} // namespace pipec

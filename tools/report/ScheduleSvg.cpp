#include "tools/report/ScheduleSvg.h"

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "tools/report/Markup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace pipec {
namespace {

// Pixels.
constexpr double kLeft = 84, kRight = 190, kTop = 78, kLane = 30, kGap = 6, kAxis = 34;
constexpr double kLeastBox = 19, kLeastWidth = 720, kMostWidth = 6000, kPageWidth = 860,
                 kDigit = 6.6, kPad = 4;

// Attributes and not styles, because a page's style overrides them.
constexpr char kInk[] = "class=\"ink\" fill=\"#1a1a1a\"",
               kSoft[] = "class=\"soft\" fill=\"#555555\"", kNumber[] = "fill=\"#1a1a1a\"";

struct KindLook {
  ActionKind kind;
  std::array<int, 3> colour;
  const char *legend;
};
constexpr KindLook kLooks[] = {
    {ActionKind::Forward, {110, 168, 220}, "F forward"},
    {ActionKind::FullBackward, {118, 190, 130}, "B backward"},
    {ActionKind::InputGrad, {112, 198, 196}, "I input gradient"},
    {ActionKind::WeightGrad, {244, 190, 92}, "W weight gradient"},
    {ActionKind::Recompute, {190, 160, 210}, "R recompute"},
};

const KindLook &lookOf(ActionKind kind) {
  return *llvm::find_if(kLooks, [&](const KindLook &look) { return look.kind == kind; });
}

/// A later stage of a rank is lighter: 0 the first, 1 the last.
std::string shade(const KindLook &look, double later) {
  std::array<int, 3> mixed;
  for (size_t c = 0; c < 3; ++c)
    mixed[c] = static_cast<int>(std::lround(look.colour[c] + (255 - look.colour[c]) * 0.5 * later));
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

class SvgDrawing {
public:
  SvgDrawing(const Schedule &schedule, const Timing &timing, const SvgText &text)
      : schedule_(schedule), timing_(timing), text_(text), top_(text.title.empty() ? 8 : kTop) {
    for (const std::vector<Action> &rank : schedule.ranks) {
      std::set<size_t> stages;
      for (const Action &action : rank)
        if (isCompute(action.kind))
          stages.insert(action.stage);
      size_t chunk = 0;
      for (size_t stage : stages)
        later_[stage] = stages.size() < 2 ? 0 : double(chunk++) / double(stages.size() - 1);
      chunks_ = std::max(chunks_, stages.size());
    }
    const double span = double(std::max<int64_t>(1, timing.makespan));
    double least = span;
    for (size_t r = 0; r < schedule.ranks.size(); ++r)
      for (size_t i = 0; i < schedule.ranks[r].size(); ++i)
        if (const int64_t length = timing.ranks[r][i].end - timing.ranks[r][i].start; length > 0)
          least = std::min(least, double(length));
    perNs_ = text.inPage ? std::clamp(kLeastBox / least, kPageWidth / span, 3 * kPageWidth / span)
                         : std::clamp(kLeastBox / least, kLeastWidth / span, kMostWidth / span);
    width_ = span * perNs_;
  }

  std::string draw() {
    const double bottom = top_ + double(schedule_.ranks.size()) * (kLane + kGap);
    const double height = bottom + kAxis + 44, total = kLeft + width_ + kRight;
    out_ = fmt::format("<svg{2} viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
                       "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
                       "<rect class=\"paper\" width=\"100%\" height=\"100%\" "
                       "fill=\"#ffffff\"/>\n",
                       total, height,
                       text_.inPage ? " role=\"img\" aria-label=\"timeline\""
                                    : " xmlns=\"http://www.w3.org/2000/svg\"");
    if (!text_.title.empty()) {
      label(kLeft, 30, 20, "start", kInk, text_.title, true);
      label(kLeft, 54, 13, "start", kSoft, text_.subtitle);
    }
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      lane(r);
    axis(bottom);
    legend(bottom + kAxis + 18);
    return out_ + "</svg>\n";
  }

private:
  double x(int64_t time) const { return kLeft + double(time) * perNs_; }

  std::string timeText(int64_t time) const {
    if (time == 0)
      return "0";
    return text_.step ? fmt::format("{:.4g}", double(time) / double(text_.step))
                      : formatDuration(time);
  }

  void label(double left, double base, int size, const char *anchor, const char *look,
             llvm::StringRef text, bool bold = false) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" "
                        "{}{}>{}</text>\n",
                        left, base, size, anchor, look, bold ? " font-weight=\"bold\"" : "",
                        markupEscaped(text));
  }

  void lane(size_t rank) {
    const double top = top_ + double(rank) * (kLane + kGap), middle = top + kLane / 2 + 4.5;
    label(kLeft - 10, middle, 13, "end", kInk, fmt::format("rank {}", rank));
    out_ += fmt::format("<rect class=\"lane\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                        "height=\"{:.0f}\" fill=\"#e6e6e6\"/>\n",
                        kLeft, top, width_, kLane);
    if (rank < text_.notes.size())
      label(kLeft + width_ + 10, middle, 12, "start", kSoft, text_.notes[rank]);
    // The halves of a pair that share their time are drawn one above the other.
    const std::vector<Action> &actions = schedule_.ranks[rank];
    bool second = false;
    for (size_t i = 0; i < actions.size(); ++i) {
      const bool first = actions[i].withNext && !second;
      const bool shared =
          (first && timing_.ranks[rank][i].start == timing_.ranks[rank][i + 1].start) ||
          (second && timing_.ranks[rank][i].start == timing_.ranks[rank][i - 1].start);
      box(rank, i, second && shared ? top + kLane / 2 : top, shared ? kLane / 2 : kLane);
      second = first;
    }
  }

  void box(size_t rank, size_t i, double top, double height) {
    const Action &action = schedule_.ranks[rank][i];
    const Timing::Interval &time = timing_.ranks[rank][i];
    if (!isCompute(action.kind) || time.end == time.start)
      return;
    shown_.insert(action.kind);
    const double left = x(time.start), width = x(time.end) - left;
    out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                        "fill=\"{}\" stroke=\"#ffffff\"><title>{}: {} to {}</title></rect>\n",
                        left, top, width, height, shade(lookOf(action.kind), later_[action.stage]),
                        toString(action), timeText(time.start), timeText(time.end));
    const std::string number = std::to_string(action.microBatch);
    if (width >= double(number.size()) * kDigit + kPad)
      label(left + width / 2, top + height / 2 + 4, 11, "middle", kNumber, number);
  }

  /// Ticks at 1, 2 or 5 times a power of ten, about 90 pixels apart.
  void axis(double top) {
    const double wanted = 90 / perNs_, power = std::pow(10, std::floor(std::log10(wanted)));
    double step = 10 * power;
    for (double factor : {5.0, 2.0, 1.0})
      if (factor * power >= wanted)
        step = factor * power;
    const auto tick = std::max<int64_t>(std::max<int64_t>(1, text_.step), std::llround(step));
    for (int64_t time = 0; time <= timing_.makespan; time += tick) {
      out_ += fmt::format(
          "<line class=\"tick\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
          "stroke=\"#999999\"/>\n",
          x(time), top, top + 6);
      label(x(time), top + 21, 11, "middle", kSoft, timeText(time));
    }
  }

  void legend(double top) {
    double left = kLeft;
    for (const KindLook &look : kLooks) {
      if (!shown_.count(look.kind))
        continue;
      out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"14\" "
                          "fill=\"{}\"/>\n",
                          left, top - 11, shade(look, 0));
      label(left + 22, top, 12, "start", kInk, look.legend);
      left += 40 + 6.6 * double(std::string(look.legend).size());
    }
    std::string more = "number: micro-batch, grey: idle";
    if (chunks_ > 1)
      more += ", lighter: later stages of the rank";
    label(left, top, 12, "start", kSoft, more);
  }

  const Schedule &schedule_;
  const Timing &timing_;
  const SvgText &text_;
  std::map<size_t, double> later_; // by stage
  std::set<ActionKind> shown_;
  size_t chunks_ = 0;
  double top_ = 0, perNs_ = 0, width_ = 0;
  std::string out_;
};

} // namespace

std::string drawSvg(const Schedule &schedule, const Timing &timing, const SvgText &text) {
  return SvgDrawing(schedule, timing, text).draw();
}

} // namespace pipec

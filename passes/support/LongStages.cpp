#include "passes/support/LongStages.h"

#include "ir/NodeInfo.h"
#include "ir/support/Words.h"
#include "passes/analysis/CutLegality.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <map>

namespace pipec {

namespace {

class LongStages {
public:
  LongStages(const Model &model, const std::vector<NodeCost> &costs, bool byCost)
      : model_(model), costs_(costs), byCost_(byCost), top_(topLevelOf(model)) {}

  std::vector<std::string> warnings() const {
    const size_t stages = top_.boundaries.size() + 1;
    const double total = cost(0, top_.operators.size());
    std::vector<std::string> sentences;
    if (costs_.size() != top_.operators.size() || total <= 0)
      return sentences;
    const double mean = total / static_cast<double>(stages);
    std::vector<std::string> idle, idleOperators;
    for (size_t s = 0; s < stages; ++s) {
      const size_t begin = s == 0 ? 0 : top_.boundaries[s - 1];
      const size_t end = s + 1 == stages ? top_.operators.size() : top_.boundaries[s];
      const double own = cost(begin, end);
      if (own <= 0) {
        idle.push_back(std::to_string(s));
        idleOperators.push_back(modulesOf(begin, end));
      } else if (own > kMost * mean)
        sentences.push_back(
            fmt::format("stage {} has {:.0f} % of the cost, {:.1f} times the mean of {}: {}", s,
                        100 * own / total, own / mean, counted(stages, "stage"), why(begin, end)));
    }
    if (!idle.empty())
      sentences.push_back(fmt::format(
          "{} {} {} only operators without cost ({}); ask for fewer stages, {} at most",
          idle.size() == 1 ? "stage" : "stages", fmt::join(idle, ", "),
          idle.size() == 1 ? "has" : "have", fmt::join(idleOperators, ", "), stages - idle.size()));
    return sentences;
  }

private:
  static constexpr double kMost = 2;        // of the mean
  static constexpr double kMainShare = 0.5; // of a stage: the operator that makes it long

  double cost(size_t begin, size_t end) const {
    double sum = 0;
    for (size_t i = begin; i < end && i < costs_.size(); ++i)
      sum += static_cast<double>(costs_[i].flops);
    return sum;
  }

  std::string why(size_t begin, size_t end) const {
    size_t main = begin;
    for (size_t i = begin; i < end; ++i)
      if (cost(i, i + 1) > cost(main, main + 1))
        main = i;
    const double share = cost(main, main + 1) / cost(begin, end);
    if (share > kMainShare)
      return fmt::format("{:.0f} % of that is {}", 100 * share, whyWhole(top_.operators[main]));
    const CutLegality legality(model_, top_);
    std::map<std::string, size_t> blocked; // places by what keeps them together
    bool free = false;
    for (size_t i = begin + 1; i < end; ++i)
      if (std::string reason = legality.why(i); reason.empty())
        free = true;
      else
        ++blocked[reason];
    const std::string what =
        fmt::format("{} {}", counted(end - begin, "operator"), modulesOf(begin, end));
    if (blocked.empty() || free)
      return what + (byCost_ ? "; no better cuts were found, because messages between stages take "
                               "time and memory, too; ask for fewer stages, or pass larger "
                               "micro-batches"
                             : "; cut elsewhere, or leave the cuts to --split auto");
    const auto most = std::max_element(blocked.begin(), blocked.end(),
                                       [](auto &a, auto &b) { return a.second < b.second; });
    return fmt::format("{}; {}; trace the model, or {}", what, most->first,
                       byCost_ ? "ask for fewer stages" : "cut elsewhere");
  }

  static std::string whyWhole(torch::jit::Node *node) {
    switch (node->kind()) {
    case c10::prim::Loop:
      return describeNode(node) + ", which runs in one stage; trace the model, or give the "
                                  "loop a number of iterations that does not depend on data";
    case c10::prim::If:
      return describeNode(node) +
             ", which runs in one stage; trace the model, or pass --inputs so that ranks "
             "and dtypes of the example decide the branch";
    case c10::aten::lstm:
    case c10::aten::gru:
    case c10::aten::rnn_tanh:
    case c10::aten::rnn_relu:
      return describeNode(node) + ", one operator that no cut can divide; use a module per layer, "
                                  "or ask for fewer stages";
    default:
      return describeNode(node) + ", one operator that no cut can divide; ask for fewer stages";
    }
  }

  /// "from encoder.0 to encoder.3"
  std::string modulesOf(size_t begin, size_t end) const {
    auto name = [&](size_t index) {
      const std::string path = modulePathOf(top_.operators[index]);
      return path.empty() ? describeNode(top_.operators[index]) : path;
    };
    const std::string first = name(begin), last = name(end - 1);
    return first == last ? "in " + first : "from " + first + " to " + last;
  }

  const Model &model_;
  const std::vector<NodeCost> &costs_;
  const bool byCost_;
  const TopLevel top_;
};

} // namespace

std::vector<std::string> longStageWarnings(const Model &model, const std::vector<NodeCost> &costs,
                                           bool byCost) {
  return LongStages(model, costs, byCost).warnings();
}

} // namespace pipec

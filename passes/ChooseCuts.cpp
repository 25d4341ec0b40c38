// choose-cuts: puts the boundaries at the author's markers, before named modules, or where the
// estimated cost is balanced.
#include "passes/ChooseCuts.h"

#include "ir/MarkerOps.h"
#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/WholeNumbers.h"
#include "ir/support/Runs.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/Passes.h"
#include "passes/analysis/CutLegality.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/ModuleNames.h"
#include "passes/analysis/OperatorOrder.h"
#include "passes/support/CutsByCost.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

namespace {

/// Modules that --at names for one cut.
struct NamedCut {
  std::string names; // "a,b": with --nearest several may move to one place
  bool moved;        // none of them begins there
};

/// What to do about a cut that has nothing before it. It names the first module outside of `name`
/// that a stage can begin at, else one inside.
std::string laterModule(const Model &model, const std::vector<std::string> &moduleCalls,
                        const TopLevel &top, const std::string &name) {
  const CutLegality legality(model, top);
  std::string inside;
  for (const std::string &call : moduleCalls) {
    llvm::Expected<NamedPlace> place = findModule(model, moduleCalls, top, call);
    if (!place) { // it begins inside control flow, or nothing follows it
      llvm::consumeError(place.takeError());
      continue;
    }
    if (place->index == 0 || !place->instead.empty() || !legality.why(place->index).empty())
      continue;
    if (!isInModule(call, name))
      return "name a later module, such as " + call;
    if (inside.empty())
      inside = call;
  }
  return inside.empty() ? "name a later module" : "name a later module, such as " + inside;
}

/// Markers in the blocks of a node, in program order.
std::vector<torch::jit::Node *> markersInside(torch::jit::Node *node) {
  std::vector<torch::jit::Node *> markers;
  firstInside(node, [&](torch::jit::Node *inner) {
    if (inner->kind() == cutSymbol())
      markers.push_back(inner);
    return false;
  });
  return markers;
}

/// The marker with the author's line, if TorchScript kept it.
std::string describeMarker(torch::jit::Node *marker) {
  const std::string line = sourceLineOf(marker);
  return line.empty() ? "pipe_split" : "pipe_split at " + line;
}

/// What follows the new place of a cut that moves out of control flow.
std::string movedBefore(const TopLevel &top, const NamedPlace &place) {
  const std::string before = placeBefore(top, place.index);
  return before == place.around ? "that operator" : before;
}

class ChooseCuts : public ModelPass {
public:
  explicit ChooseCuts(ChooseCutsOptions options) : options_(std::move(options)) {}

  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    TopLevel top = topLevelOf(model);
    context.askedBy.clear();
    size_t notesBefore = context.notes.size();
    const CutSource source = sourceFor(model, top);
    context.cutsByCost = source == CutSource::Auto;
    llvm::Expected<std::vector<size_t>> boundaries = std::vector<size_t>{};
    if (!options_.places.empty())
      boundaries = fromPlaces(top);
    else if (source == CutSource::Markers)
      boundaries = fromMarkers(model, context, top);
    else if (source == CutSource::At)
      boundaries = fromNames(model, context, top);
    else
      boundaries = fromCost(model, context, top);
    if (!boundaries)
      return boundaries.takeError();
    if (options_.stages != 0 && source != CutSource::Auto &&
        boundaries->size() + 1 != options_.stages)
      return makeError(
          ExitCode::Usage,
          fmt::format("--stages {} conflicts with {} ({})", options_.stages,
                      counted(boundaries->size(),
                              source == CutSource::At ? "--at cut" : "pipe_split marker"),
                      counted(boundaries->size() + 1, "stage")),
          "leave --stages out, or let --split auto choose the cuts");
    if (options_.order.empty() && *boundaries == top.boundaries && !findNestedBoundary(model))
      return context.notes.size() != notesBefore; // the markers are at their final places
    removeNestedBoundaries(model);
    removeBoundaries(model);
    TRY(reorder(model, context));
    top = topLevelOf(model);
    for (size_t boundary : *boundaries)
      insertBoundary(top.operators[boundary]);
    return true;
  }

private:
  CutSource sourceFor(const Model &model, const TopLevel &top) const {
    if (!options_.places.empty())
      return CutSource::Auto;
    if (options_.split)
      return *options_.split;
    if (!options_.at.empty())
      return CutSource::At;
    return !top.boundaries.empty() || findNestedBoundary(model) ? CutSource::Markers
                                                                : CutSource::Auto;
  }

  /// Puts the operators into the order that the planner chose. An obligation in the model records
  /// the order, so that the proof can put the operators back.
  llvm::Error reorder(Model &model, PassContext &context) const {
    if (options_.order.empty())
      return llvm::Error::success();
    const TopLevel top = topLevelOf(model);
    if (options_.order.size() != top.operators.size() || !isPermutation(options_.order))
      return failf(ExitCode::Usage, "order: expected each of {} operators once, got {}",
                   top.operators.size(), counted(options_.order.size(), "operator"));
    const std::string why = OperatorOrder(top, CutLegality(model, top)).why(options_.order);
    if (!why.empty())
      return failf(ExitCode::Usage, "order: expected one that computes the same, but {}", why);
    // Stages repeat whole-number arithmetic where they need it, so the proof does not count it.
    std::vector<size_t> number, moved;
    size_t next = 0;
    for (torch::jit::Node *node : top.operators)
      number.push_back(isWholeNumberOp(node) ? 0 : next++);
    for (size_t index : options_.order)
      if (!isWholeNumberOp(top.operators[index]))
        moved.push_back(number[index]);
    reorderOperators(model, options_.order);
    context.costs = reordered(context.costs, options_.order);
    if (movedIn(moved) > 0)
      model.obligations.push_back(Obligation::reorder(moved));
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<size_t>> fromMarkers(const Model &model, PassContext &context,
                                                  const TopLevel &top) {
    const std::vector<size_t> asked = TRY(withNestedMarkers(model, context, top));
    if (asked.empty() && options_.split == CutSource::Markers)
      return makeError(ExitCode::Usage, "--split markers: the model has no pipe_split marker",
                       "call pipe_split(x) where stages meet, or use --at or --stages");
    std::vector<size_t> boundaries;
    for (size_t boundary : asked) {
      if (boundary == 0 || boundary >= top.operators.size() ||
          (!boundaries.empty() && boundaries.back() == boundary)) {
        context.notes.push_back("a pipe_split marker with nothing before or after it was dropped");
        continue;
      }
      boundaries.push_back(boundary);
    }
    return boundaries;
  }

  /// All markers. Those inside control flow count as before it, or as after it if nothing is
  /// before.
  llvm::Expected<std::vector<size_t>> withNestedMarkers(const Model &model, PassContext &context,
                                                        const TopLevel &top) const {
    std::vector<size_t> boundaries = top.boundaries;
    for (size_t i = 0; i < top.operators.size(); ++i)
      for (torch::jit::Node *marker : markersInside(top.operators[i])) {
        if (i == 0 && isFirstInBlocks(marker, top.operators[0])) { // nothing is before it
          boundaries.insert(boundaries.begin(), 0);
          continue;
        }
        const std::string what = describeMarker(marker);
        const NamedPlace place =
            TRY(placeOfCut(model, top, i, marker, options_.nearest, Refusal::MarkerInBlock, what));
        const auto at = llvm::lower_bound(boundaries, place.index);
        const bool taken = at != boundaries.end() && *at == place.index;
        const bool moved = !place.around.empty();
        if (moved)
          context.warnings.push_back(fmt::format(
              "{} is not possible: it is inside {}; cut before {} instead{}", what, place.around,
              movedBefore(top, place),
              taken ? ", at the same place as another marker, so both are one cut" : ""));
        if (!moved || !taken)
          boundaries.insert(at, place.index);
      }
    return boundaries;
  }

  llvm::Expected<std::vector<size_t>> fromNames(const Model &model, PassContext &context,
                                                const TopLevel &top) {
    std::map<size_t, NamedCut> cuts;
    for (const std::string &name : options_.at) {
      llvm::Expected<NamedPlace> place =
          findModule(model, context.moduleCalls, top, name, options_.nearest);
      if (!place)
        return withContext(place.takeError(), "--at");
      std::string why = place->unknown; // the cut is not before the module
      if (!place->around.empty())
        why = "it begins inside " + place->around;
      if (why.empty() && !place->instead.empty())
        context.notes.push_back("--at " + name + ": none of its operators are left; cut before " +
                                place->instead);
      if (place->index == 0)
        return makeError(ExitCode::Usage,
                         "--at: a cut before " + name + " leaves the first stage empty",
                         laterModule(model, context.moduleCalls, top, name));
      const bool moved = !why.empty();
      auto [it, inserted] = cuts.try_emplace(place->index, NamedCut{name, moved});
      if (moved) {
        context.warnings.push_back(fmt::format(
            "--at {} is not possible: {}; cut before {} instead{}", name, why,
            movedBefore(top, *place),
            inserted
                ? ""
                : ", at the same place as --at " + it->second.names + ", so both are one cut"));
      }
      if (inserted)
        continue;
      if (!moved && !it->second.moved)
        return makeError(ExitCode::Usage,
                         "--at: " + it->second.names + " and " + name +
                             " begin at the same operator",
                         "name one of them");
      if (!moved)
        context.warnings.push_back(fmt::format("--at {} and --at {} are one cut: with --nearest "
                                               "the former moves to the latter's place",
                                               it->second.names, name));
      it->second.names += "," + name;
      it->second.moved &= moved;
    }
    std::vector<size_t> boundaries;
    for (const auto &[index, cut] : cuts) {
      boundaries.push_back(index);
      context.askedBy.push_back("--at " + cut.names);
    }
    return boundaries;
  }

  llvm::Expected<std::vector<size_t>> fromPlaces(const TopLevel &top) const {
    for (size_t i = 0; i < options_.places.size(); ++i)
      if (options_.places[i] <= (i ? options_.places[i - 1] : 0) ||
          options_.places[i] >= top.operators.size())
        return failf(ExitCode::Usage, "places: expected ascending ones from 1 to {}, got {}",
                     top.operators.size() - 1, options_.places[i]);
    return options_.places;
  }

  llvm::Expected<std::vector<size_t>> fromCost(const Model &model, const PassContext &context,
                                               const TopLevel &top) {
    if (options_.stages == 0)
      return makeError(ExitCode::Usage, "no cuts are requested",
                       "pass --stages N, name modules with --at, or mark the model with "
                       "pipe_split, decorated with @torch.jit.script: tracing drops a plain Python "
                       "function, torch.jit.freeze and optimize_for_inference drop every marker");
    if (options_.stages == 1)
      return std::vector<size_t>{};
    if (context.costs.size() != top.operators.size())
      return makeError(ExitCode::Usage, "automatic cuts need the cost of every operator",
                       "pass example inputs with --inputs");
    CutLegality legality(model, top);
    TRY(legality.enoughFor(options_.stages - 1));
    return cutsByCost(top, context.costs, legality.all(), options_.stages);
  }

  const ChooseCutsOptions options_;
};

/// Errors: Usage for a text that is no list of numbers.
llvm::Error parsePlaces(ChooseCutsOptions &options, llvm::StringRef text) {
  for (llvm::StringRef place : listOfOption(text))
    if (place.getAsInteger(10, options.places.emplace_back()))
      return failf(ExitCode::Usage, "places: expected numbers of operators, got {}", place.str());
  return llvm::Error::success();
}

std::string printPlaces(const ChooseCutsOptions &options) {
  std::vector<std::string> texts;
  for (size_t place : options.places)
    texts.push_back(std::to_string(place));
  return llvm::join(texts, ":");
}

/// Errors: Usage for a text that runsOf does not write, and for an order without places.
llvm::Error parseOrder(ChooseCutsOptions &options, llvm::StringRef text) {
  std::optional<std::vector<size_t>> order = numbersOfRuns(listOfOption(text));
  if (!order || options.places.empty())
    return failf(ExitCode::Usage, "order: expected runs like 0-3:7:4-6, and places, got {}",
                 text.str());
  options.order = std::move(*order);
  return llvm::Error::success();
}

std::string printOrder(const ChooseCutsOptions &options) {
  return llvm::join(runsOf(options.order), ":");
}

} // namespace

OptionFields<ChooseCutsOptions> ChooseCutsOptions::fields() {
  using Options = ChooseCutsOptions;
  return {
      choiceOption<Options, std::optional<CutSource>>(
          "split=markers|at|auto",
          "default at when names are given, markers when there are some, else auto",
          &Options::split,
          {{"auto", CutSource::Auto}, {"markers", CutSource::Markers}, {"at", CutSource::At}}),
      listOption("at=A:B", "module names", &Options::at),
      countOption("stages=N", "number of stages", &Options::stages),
      {"places=I:J", "before the operators of these numbers, as a planner says", printPlaces,
       parsePlaces},
      {"order=I-J:K",
       "before that, the operators are put into this order, which must compute the same",
       printOrder, parseOrder},
      choiceOption<Options, bool>(
          "place=exact|nearest",
          "nearest cuts before control flow that a named module or a marker is inside of; exact, "
          "the default, refuses that",
          &Options::nearest, {{"exact", false}, {"nearest", true}}),
  };
}

PassInfo chooseCuts() {
  return {.name = "choose-cuts",
          .description = "puts stage boundaries at markers, before named modules, or where the "
                         "estimated cost is balanced",
          .requires_ = "attributes are lowered; for cost: every top-level operator has its cost",
          .guarantees =
              "each boundary is a pipec::cut() at top level with operators before and after it",
          .example = R"(
    %h : Tensor = aten::relu(%x)
    %y : Tensor = aten::relu(%h)
    => choose-cuts{at=second}
    pipec::cut()
    %y : Tensor = aten::relu(%h))",
          .options = optionsOf<ChooseCutsOptions>(),
          .make = withOptions<ChooseCuts, ChooseCutsOptions>()};
}

} // namespace pipec

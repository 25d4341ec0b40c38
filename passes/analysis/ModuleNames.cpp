#include "passes/analysis/ModuleNames.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/WholeNumbers.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/CutLegality.h"
#include "passes/analysis/Decisions.h"

#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

namespace {

using torch::jit::Node;

/// "a#2.b" -> {"a", 2}, {"b", 1}
std::vector<std::pair<llvm::StringRef, llvm::StringRef>> components(llvm::StringRef path) {
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> result;
  while (!path.empty()) {
    auto [head, tail] = path.split('.');
    result.push_back(head.split('#'));
    path = tail;
  }
  return result;
}

/// The module is called, but not that often.
llvm::Error noSuchCall(const std::string &name, const std::vector<std::string> &calls) {
  constexpr size_t kMostNames = 6;
  std::string names =
      llvm::join(calls.begin(), calls.begin() + std::min(calls.size(), kMostNames), ", ");
  if (calls.size() > kMostNames)
    names += ", ... " + calls.back();
  const std::string module = withoutCallNumbers(name);
  return makeError(
      ExitCode::Usage,
      calls.size() == 1
          ? fmt::format("expected the one call of {}, got {}", module, name)
          : fmt::format("expected one of the {} calls of {}, got {}", calls.size(), module, name),
      (calls.size() == 1 ? "write " : "they are ") + names);
}

llvm::Error noSuchModule(const std::vector<std::string> &moduleCalls, const std::string &name) {
  std::vector<std::string> calls;
  for (const std::string &call : moduleCalls)
    if (withoutCallNumbers(call) == withoutCallNumbers(name))
      calls.push_back(call);
  if (!calls.empty())
    return noSuchCall(name, calls);
  std::set<std::string> names;
  for (const std::string &call : moduleCalls)
    for (std::string path = withoutCallNumbers(call); !path.empty();
         path = path.find('.') == std::string::npos ? "" : path.substr(0, path.rfind('.')))
      names.insert(path);
  std::string error = "the model calls no module " + name;
  if (names.empty())
    return makeError(ExitCode::Usage, error,
                     "the model calls no module at all: cut it with pipe_split markers");
  return makeError(ExitCode::Usage, error,
                   didYouMean(name, std::vector<std::string>(names.begin(), names.end()),
                              "pipe-inspect MODEL.pt lists the modules"));
}

} // namespace

llvm::Error checkModuleName(llvm::StringRef name) {
  bool good = !name.empty() && !endsWith(name, ".");
  for (llvm::StringRef part : llvm::split(name, '.')) {
    auto [module, call] = part.split('#');
    int64_t number = 0;
    good &= !module.empty() && !endsWith(part, "#");
    if (!call.empty())
      good &= !call.getAsInteger(10, number) && number >= 1 && call == std::to_string(number);
  }
  if (good)
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("expected a module as encoder.layers.6, or a call of it as "
                               "encoder.layers.6#2, got \"{}\"",
                               name.str()),
                   "calls are counted from 1");
}

bool isInModule(llvm::StringRef path, llvm::StringRef name) {
  auto inside = components(path), outer = components(name);
  if (outer.empty() || inside.size() < outer.size())
    return false;
  for (size_t i = 0; i < outer.size(); ++i) {
    if (inside[i].first != outer[i].first)
      return false;
    if (!outer[i].second.empty() &&
        (inside[i].second.empty() ? "1" : inside[i].second) != outer[i].second)
      return false;
  }
  return true;
}

/// One of several branches on one condition that is computed without tensors, as split-branches
/// makes them.
static bool isStepOfBranch(Node *node) {
  if (node->kind() != c10::prim::If)
    return false;
  const torch::jit::Value *condition = node->input(0);
  const bool needsNoTensor =
      condition->node()->kind() == c10::prim::Param ||
      (condition->node()->blocks().empty() &&
       llvm::none_of(condition->node()->inputs(), [](const torch::jit::Value *input) {
         return input->type()->kind() == c10::TypeKind::TensorType;
       }));
  return needsNoTensor && llvm::any_of(condition->uses(), [&](const torch::jit::Use &use) {
           return use.user != node && use.user->kind() == c10::prim::If &&
                  use.user->owningBlock() == node->owningBlock();
         });
}

llvm::Expected<NamedPlace> placeOfCut(const Model &model, const TopLevel &top, size_t index,
                                      Node *node, bool mayMove, Refusal refusal,
                                      const std::string &what) {
  Node *around = top.operators[index];
  if (node == around || (isStepOfBranch(around) && isFirstInBlocks(node, around)))
    return NamedPlace{index, "", "", ""};
  if (top.operators.size() == 1)
    TRY(CutLegality(model, top).enoughFor(1));
  index = std::max<size_t>(index, 1); // nothing is before the first operator
  if (!mayMove)
    return refuseWith(refusal, what, describeNode(around), decidedBy(model, around),
                      placeBefore(top, index));
  return NamedPlace{index, "", describeNode(around), ""};
}

/// Where a call without operators may stand: "among the operators from X to Y". Empty: the last
/// operator of the calls before it and the operator `next` of a call after it leave one place.
/// Whole numbers do not count: each stage computes those that it needs.
static std::string unknownPlace(const std::vector<std::string> &moduleCalls, const TopLevel &top,
                                size_t call, size_t next) {
  auto isEarlier = [&](Node *node) {
    const std::string path = modulePathOf(node);
    for (size_t c = 0; c < call; ++c) {
      const std::string &earlier = moduleCalls[c];
      const bool isAround = startsWith(moduleCalls[call], earlier + ".");
      if (!isAround && (path == earlier || startsWith(path, earlier + ".")))
        return true;
    }
    return false;
  };
  size_t after = next;
  while (after > 0 && !firstInside(top.operators[after - 1], isEarlier))
    --after;
  // The call may stand in the control flow that holds the earlier one.
  if (after > 0 && !top.operators[after - 1]->blocks().empty())
    return "beside or in " + describeNode(top.operators[after - 1]);
  std::vector<Node *> between;
  for (size_t i = after; i < next; ++i)
    if (!isWholeNumberOp(top.operators[i]))
      between.push_back(top.operators[i]);
  if (between.empty())
    return "";
  if (between.size() == 1)
    return "before or after " + describeNode(between[0]);
  return fmt::format("among the operators from {} to {}", describeNode(between.front()),
                     describeNode(between.back()));
}

llvm::Expected<NamedPlace> findModule(const Model &model,
                                      const std::vector<std::string> &moduleCalls,
                                      const TopLevel &top, const std::string &name, bool mayMove) {
  TRY(checkModuleName(name));
  auto operatorOf = [&](llvm::StringRef module) -> std::optional<std::pair<size_t, Node *>> {
    for (size_t i = 0; i < top.operators.size(); ++i)
      if (Node *found = firstInside(
              top.operators[i], [&](Node *node) { return isInModule(modulePathOf(node), module); }))
        return std::make_pair(i, found);
    return std::nullopt;
  };
  auto placeOf = [&](std::pair<size_t, Node *> found) {
    return placeOfCut(model, top, found.first, found.second, mayMove, Refusal::ModuleInBlock, name);
  };
  if (auto found = operatorOf(name))
    return placeOf(*found);
  auto call =
      llvm::find_if(moduleCalls, [&](const std::string &path) { return isInModule(path, name); });
  if (call == moduleCalls.end())
    return noSuchModule(moduleCalls, name);
  const size_t named = static_cast<size_t>(call - moduleCalls.begin());
  for (++call; call != moduleCalls.end(); ++call)
    if (auto found = operatorOf(*call)) {
      NamedPlace place = TRY(placeOf(*found));
      place.instead = *call;
      if (!place.around.empty())
        return place;
      const std::string where = unknownPlace(moduleCalls, top, named, place.index);
      if (!where.empty()) {
        place.unknown = "none of its operators are left, and its place " + where + " is unknown";
        if (!mayMove)
          return refuseWith(Refusal::CutNotPossible, "a cut before " + name, place.unknown,
                            placeBefore(top, place.index));
      }
      return place;
    }
  return makeError(ExitCode::Usage,
                   "module " + name + " has no operators left, and no module follows it",
                   "cut at an earlier module");
}

std::string placeBefore(const TopLevel &top, size_t index) {
  const std::string path = modulePathOf(top.operators[index]) + ".",
                    before = modulePathOf(top.operators[index - 1]) + ".";
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
    if (dot > 0 && before.compare(0, dot + 1, path, 0, dot + 1) != 0)
      return path.substr(0, dot);
  return describeNode(top.operators[index]);
}

std::string withoutCallNumbers(llvm::StringRef path) {
  std::string text;
  for (; !path.empty(); path = path.split('.').second)
    text += (text.empty() ? "" : ".") + path.split('.').first.split('#').first.str();
  return text;
}

} // namespace pipec

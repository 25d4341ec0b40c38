#include "compiler/samples/SampleRelations.h"

#include "compiler/samples/LinearOperators.h"
#include "compiler/samples/SampleLoops.h"
#include "compiler/samples/SampleOperators.h"
#include "compiler/samples/SamplePlaces.h"
#include "ir/NodeInfo.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

namespace {

using Nodes = std::vector<Node *>;

void add(Nodes &all, Node *node) {
  if (!llvm::is_contained(all, node))
    all.push_back(node);
}
void add(Nodes &all, const Nodes &more) {
  for (Node *node : more)
    add(all, node);
}

/// What is known of one value.
struct Facts {
  Nodes over;               // operators over the samples that it depends on
  Nodes counts;             // a number of selected rows: operators that selected them
  Nodes averages, bends;    // see SampleRelations
  Node *order = nullptr;    // its rows are reordered by this operator
  Node *selects = nullptr;  // its rows are those that data selected, by this operator
  bool isLimited = false;   // a number of rows that a constant limits
  bool isDataSized = false; // its size follows elements, in whatever
  bool isPlace = false;     // with `order`: the places of rows in it

  void join(const Facts &other) {
    add(over, other.over);
    add(counts, other.counts);
    add(averages, other.averages);
    add(bends, other.bends);
    order = order ? order : other.order;
    selects = selects ? selects : other.selects;
    isLimited = isLimited || other.isLimited;
    isDataSized = isDataSized || other.isDataSized;
    isPlace = isPlace || other.isPlace;
  }
};

bool raises(Block *block) {
  return anyNodeInside(block, [](Node *node) { return node->kind() == c10::prim::RaiseException; });
}

/// Whether `value` is made from `source`, or they are made from one value, in a few steps.
bool isMadeFrom(Value *value, Value *source, int steps = 8) {
  if (value == source)
    return true;
  if (steps == 0 || value->node()->kind() == c10::prim::Param)
    return false;
  return llvm::any_of(value->node()->inputs(),
                      [&](Value *input) { return isMadeFrom(input, source, steps - 1); });
}

class Follower {
public:
  Follower(const Model &model, const BatchForms &forms)
      : model_(model), forms_(forms), loops_(sampleLoops(model, forms)), sizes_(forms) {}

  SampleRelations follow() {
    visit(model_.graph->block());
    const size_t results = model_.signature.leaves.size();
    for (size_t l = 0; l < results; ++l) {
      const Facts facts = factsOf(model_.graph->outputs()[l]);
      found_.reaching.push_back(facts.over);
      found_.averages.push_back(facts.averages);
      found_.bends.push_back(facts.bends);
    }
    return std::move(found_);
  }

private:
  Facts factsOf(const Value *value) const {
    const auto known = facts_.find(value);
    return known == facts_.end() ? Facts() : known->second;
  }

  void visit(Block *block) {
    for (Node *node : block->nodes()) {
      if (node->kind() == c10::prim::Constant)
        continue;
      if (node->kind() == c10::prim::If)
        visitBranch(node);
      else if (node->kind() == c10::prim::Loop)
        visitLoop(node);
      else
        visitOperator(node);
    }
  }

  void visitBranch(Node *node) {
    for (Block *block : node->blocks())
      visit(block);
    const Facts condition = factsOf(node->input(0));
    if (!condition.over.empty() && llvm::none_of(node->blocks(), raises) &&
        !onlySkips(node, condition.over))
      noteBranch(node, condition.over.front());
    for (size_t o = 0; o < node->outputs().size(); ++o) {
      Facts &facts = facts_[node->output(o)];
      for (Block *block : node->blocks())
        facts.join(factsOf(block->outputs()[o]));
      if (loops_.relating.count(node))
        add(facts.over, node);
    }
  }

  void visitLoop(Node *node) {
    Block *body = node->blocks()[0];
    for (int round = 0; round < 2; ++round) { // the second one knows what the first hands on
      for (size_t k = 2; k < node->inputs().size(); ++k) {
        Facts &facts = facts_[body->inputs()[k - 1]];
        facts.join(factsOf(node->input(k)));
        if (round > 0)
          facts.join(factsOf(body->outputs()[k - 1]));
        if (Node *gathers = gathersSamples(node, k))
          add(facts.over, gathers);
      }
      visit(body);
    }
    Facts ends = factsOf(node->input(0)); // the number of rounds
    ends.join(factsOf(node->input(1)));   // the condition before the first
    ends.join(factsOf(body->outputs()[0]));
    if (!ends.over.empty())
      noteBranch(node, ends.over.front());
    else if (loops_.ended.count(node))
      noteBranch(node, node);
    for (size_t k = 2; k < node->inputs().size(); ++k) {
      Facts &facts = facts_[node->output(k - 2)];
      facts = factsOf(node->input(k));
      facts.join(factsOf(body->outputs()[k - 1]));
      if (Node *gathers = gathersSamples(node, k))
        add(facts.over, gathers);
    }
  }

  /// Finds what a loop with a round per sample carries to its next round: a number or a tensor that
  /// does not grow with the samples, or a value that elements of a sample decide. Returns the
  /// operator that makes it; null: there is none.
  Node *gathersSamples(Node *loop, size_t input) const {
    Block *body = loop->blocks()[0];
    Value *handedOn = body->outputs()[input - 1], *result = loop->output(input - 2);
    const bool isMade =
        handedOn->node()->owningBlock() == body && !handedOn->node()->inputs().empty();
    if (loops_.carried.count(handedOn))
      return isMade ? handedOn->node() : loop;
    const auto &rounds = forms_.of(loop->input(0)).number;
    const bool gathers = rounds && rounds->perBatch > 0 && isMade &&
                         (result->type()->kind() == c10::TypeKind::FloatType ||
                          (isTensor(result) && forms_.of(result).isFixed()));
    return gathers ? handedOn->node() : nullptr;
  }

  void noteBranch(Node *branch, Node *over) {
    if (llvm::none_of(found_.branches, [&](const auto &one) { return one.first == branch; }))
      found_.branches.emplace_back(branch, over);
  }

  /// Whether each result of a branch is a value from outside, or that value written where a mask is
  /// set, and the condition is a reduction of this mask. If the mask has no set element, both are
  /// equal.
  static bool onlySkips(Node *branch, const Nodes &over) {
    Block *sides[] = {branch->blocks()[0], branch->blocks()[1]};
    for (Block *side : sides)
      if (anyNodeInside(side, [&](Node *node) { return writesElsewhere(node, over); }))
        return false;
    for (size_t o = 0; o < branch->outputs().size(); ++o) {
      Value *first = sides[0]->outputs()[o], *second = sides[1]->outputs()[o];
      const bool isWritten = llvm::any_of(over, [&](Node *reduction) {
        Value *mask = reduction->input(0);
        return writesWhere(first, second, mask) || writesWhere(second, first, mask);
      });
      if (first != second && !isWritten)
        return false;
    }
    return true;
  }

  /// Whether it writes in place, not only where such a mask is set.
  static bool writesElsewhere(Node *node, const Nodes &over) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    return schema && schema->is_mutable() &&
           !(writesSelected(node) && llvm::any_of(over, [&](Node *reduction) {
               return llvm::any_of(node->inputs(), [&](Value *input) {
                 return isMadeFrom(input, reduction->input(0));
               });
             }));
  }

  static bool writesWhere(Value *written, Value *before, Value *mask) {
    for (int steps = 0; steps < 4 && written != before; ++steps) {
      Node *node = written->node();
      if (!writesSelected(node) ||
          llvm::none_of(node->inputs(), [&](Value *input) { return isMadeFrom(input, mask); }))
        return false;
      written = node->input(0);
    }
    return written == before;
  }

  void visitOperator(Node *node) {
    using Kind = OperatorRole::Kind;
    const OperatorRole role = roleOf(node, forms_);
    const Facts first = node->inputs().empty() ? Facts() : factsOf(node->input(0));
    Facts facts;
    for (size_t i = 0; i < node->inputs().size(); ++i)
      facts.join(ofInput(node, i, role));
    if (role.kind == Kind::Form && role.isCount && first.selects)
      facts.counts.push_back(first.selects);
    // The value has rows of one sample only, so selecting or sorting them involves no other sample.
    const bool isOwn = loops_.own.count(node);
    const bool reducesSelected = first.selects && role.reduces && !isOwn;
    // Sizes that depend on elements differ between the runs, like those that follow the samples.
    const bool isUnsure = facts.isDataSized && !facts.selects && !role.reducesAll;
    const bool bends = bendsNumbers(node, role); // before the operator itself is over samples
    const bool isOver = role.kind == Kind::Over || movesSamples(node, forms_, sizes_) ||
                        (readsList(node) && loops_.extended.count(node->input(0)));
    if ((isOver && !isUnsure && !isOwn) || reducesSelected) {
      add(facts.over, node);
      facts.order = facts.selects = nullptr;
      facts.isLimited = false; // what limits its input does not limit the number
    }
    if (loops_.relating.count(node))
      add(facts.over, node);
    if (!isOwn)
      noteUses(node, role, reducesSelected, isUnsure, facts);
    if (bends)
      add(facts.bends, node);
    facts.isLimited =
        facts.isLimited || (role.limits && !(facts.over.empty() && facts.counts.empty()));
    facts.isPlace = facts.isPlace && role.kind == Kind::View;
    facts.isDataSized = facts.isDataSized || role.fromData;
    if (role.kind == Kind::Order)
      facts.order = node;
    if (role.kind == Kind::Selects || loops_.selecting.count(node))
      facts.selects = node;
    for (size_t o = 0; o < node->outputs().size(); ++o) {
      Facts &own = facts_[node->output(o)] = facts;
      own.isPlace = facts.isPlace || (role.kind == Kind::Order && o + 1 == node->outputs().size());
      if (o == role.overOutput)
        add(own.over, node);
    }
    handToWritten(node, facts);
  }

  /// What an operator makes of rows that data selected or sorted.
  void noteUses(Node *node, const OperatorRole &role, bool reducesSelected, bool isUnsure,
                Facts &facts) const {
    if (role.isAverage || (reducesSelected && role.isMean) || dividesByNumber(node, role))
      add(facts.averages, node);
    if (facts.order && ((role.cutsOff && !isUnsure) || (role.compares && facts.isPlace)))
      add(facts.over, facts.order);
    if (facts.selects && role.takesFirst)
      add(facts.over, facts.selects);
    if (role.comparesWithMany)
      add(facts.over, facts.counts);
    if (facts.selects && role.takesParts && facts.isLimited)
      add(facts.over, facts.counts);
  }

  /// A value that an operator writes is also in the tensor or list that its first input is a part
  /// of.
  void handToWritten(Node *node, const Facts &facts) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    if (!schema || !schema->is_mutable() || node->inputs().empty())
      return;
    static const llvm::StringSet<> kParts = {"select",  "slice",     "narrow",  "view", "unsqueeze",
                                             "squeeze", "transpose", "permute", "t"};
    for (Value *written = node->input(0);; written = written->node()->input(0)) {
      facts_[written].join(facts);
      if (!isIn(kParts, written->node()))
        return;
    }
  }

  /// Whether the mean of its results, with inputs over samples, is not the result of the mean.
  bool bendsNumbers(Node *node, const OperatorRole &role) const {
    std::vector<Value *> over;
    for (size_t i = 0; i < node->inputs().size(); ++i)
      if (!isPlaceInput(node, i) && !ofInput(node, i, role).over.empty())
        over.push_back(node->input(i));
    return !over.empty() && !isLinear(node, [&](Value *input) {
      const bool isElement = !llvm::is_contained(node->inputs(), input); // of a list
      return isElement ? !factsOf(input).over.empty() : llvm::is_contained(over, input);
    });
  }

  bool dividesByNumber(Node *node, const OperatorRole &role) const {
    if (!role.divides || node->inputs().size() < 2)
      return false;
    const Facts below = factsOf(node->input(1));
    return !below.over.empty() || !below.counts.empty();
  }

  /// What an operator takes over from one of its inputs.
  Facts ofInput(Node *node, size_t index, const OperatorRole &role) const {
    Facts facts = factsOf(node->input(index));
    if (role.kind == OperatorRole::Kind::Form) { // the elements of the result follow none of it
      Facts sizes;
      sizes.isDataSized = facts.isDataSized || (role.isMade && !facts.over.empty());
      return isElement(node, index) ? facts : sizes;
    }
    if (index == 0)
      return facts;
    if (role.divides || isPlaceInput(node, index)) // an average, which is followed as such
      facts.bends.clear();
    if (role.kind == OperatorRole::Kind::Writes) { // rows are back in their places
      facts.order = facts.selects = nullptr;
      facts.isDataSized = false;
    }
    // Ends of groups of sorted rows: each row is in one of them.
    if (role.takesParts && !facts.isLimited && factsOf(node->input(0)).order)
      facts.over.clear();
    return facts;
  }

  /// With Form: the elements of the result are made of this number.
  static bool isElement(Node *node, size_t index) {
    const Value *input = node->input(index);
    return llvm::any_of(llvm::ArrayRef<const char *>{"fill_value", "start", "step"},
                        [&](const char *name) { return inputNamed(node, name) == input; });
  }

  const Model &model_;
  const BatchForms &forms_;
  const SampleLoops loops_;
  SizeValues sizes_;
  std::unordered_map<const Value *, Facts> facts_; // looked up by pointer only
  SampleRelations found_;
};

} // namespace

SampleRelations sampleRelations(const Model &model, const BatchForms &forms) {
  return Follower(model, forms).follow();
}

} // namespace pipec

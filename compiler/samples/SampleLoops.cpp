#include "compiler/samples/SampleLoops.h"

#include "compiler/samples/SampleOperators.h"
#include "ir/NodeInfo.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

namespace {

using Names = llvm::StringSet<>;

/// The sample that a value comes from. All values of one round that come from x[i] have the same
/// one.
struct Sample {
  const Value *round = nullptr; // the number of the round; null: a place that no round changes
  int64_t offset = 0;           // from the sample of the round
  const Node *other = nullptr;  // the operator that takes several samples, or one by other sizes

  bool operator==(const Sample &) const = default;
};

struct Facts {
  bool fromSamples = false; // its elements depend on elements of samples
  bool seesOthers = false;  // also on those of samples other than `sample`
  std::optional<Sample> sample;
};

/// A whole number as factor * round + offset.
struct Linear {
  const Value *round = nullptr;
  int64_t factor = 0, offset = 0;
};

int64_t floorDivide(int64_t number, int64_t by) {
  return number / by - (number % by != 0 && (number < 0) != (by < 0));
}

class Walker {
public:
  explicit Walker(const BatchForms &forms) : forms_(forms) {}

  SampleLoops walk(const Model &model) {
    visit(model.graph->block());
    return std::move(found_);
  }

private:
  Facts of(const Value *value) const {
    const auto known = facts_.find(value);
    return known == facts_.end() ? Facts() : known->second;
  }

  /// Two samples in one value: `node` combines them.
  void join(Facts &facts, const Facts &other, const Node *node) {
    facts.fromSamples = facts.fromSamples || other.fromSamples;
    facts.seesOthers = facts.seesOthers || other.seesOthers;
    if (facts.sample && other.sample && !(*facts.sample == *other.sample))
      found_.relating.insert(node);
    if (!facts.sample)
      facts.sample = other.sample;
  }

  void visit(Block *block) {
    for (Node *node : block->nodes()) {
      if (node->kind() == c10::prim::If)
        visitBranch(node);
      else if (node->kind() == c10::prim::Loop)
        visitLoop(node);
      else if (node->kind() != c10::prim::Constant)
        visitOperator(node);
    }
  }

  void visitBranch(Node *node) {
    const Facts condition = of(node->input(0)), outer = decides_;
    if (condition.fromSamples) {
      decides_.fromSamples = true;
      if (condition.sample)
        decides_.sample = condition.sample;
    }
    for (Block *block : node->blocks())
      visit(block);
    decides_ = outer;
    for (size_t o = 0; o < node->outputs().size(); ++o) {
      const Value *first = node->blocks()[0]->outputs()[o];
      const Value *second = node->blocks()[1]->outputs()[o];
      Facts facts = of(first);
      join(facts, of(second), node);
      if (condition.fromSamples && first != second)
        join(facts, condition, node);
      if (loop_ && condition.sample && first != second && forms_.of(node->output(o)).any() &&
          isTensor(node->output(o)))
        found_.relating.insert(node); // all samples follow one
      facts_[node->output(o)] = facts;
    }
  }

  void visitLoop(Node *node) {
    Block *body = node->blocks()[0];
    const bool isOver = loopsOverSamples(node, forms_);
    const Node *outer = loop_;
    if (isOver) {
      loop_ = node;
      rounds_.insert(body->inputs()[0]);
      for (size_t k = 1; k < body->inputs().size(); ++k)
        if (isCounter(body, k))
          rounds_.insert(body->inputs()[k]);
    }
    for (int round = 0; round < 2; ++round) { // the second one knows what the first hands on
      for (size_t k = 1; k < body->inputs().size(); ++k) {
        Facts facts = of(node->input(k + 1)), next = of(body->outputs()[k]);
        if (isOver)
          next.sample.reset();
        join(facts, next, node);
        facts_[body->inputs()[k]] = facts;
      }
      visit(body);
    }
    for (size_t k = 1; k < body->inputs().size(); ++k) {
      Facts facts = of(node->input(k + 1)), last = of(body->outputs()[k]);
      if (isOver && last.fromSamples && body->outputs()[k] != body->inputs()[k] &&
          isHandedOn(node->output(k - 1)))
        found_.carried.insert(body->outputs()[k]);
      if (isOver)
        facts.sample = last.sample = std::nullopt;
      join(facts, last, node);
      facts_[node->output(k - 1)] = facts;
    }
    if (isOver && of(body->outputs()[0]).fromSamples)
      found_.ended.insert(node);
    loop_ = outer;
  }

  /// `i = i + 1`
  static bool isCounter(const Block *body, size_t input) {
    const Node *next = body->outputs()[input]->node();
    return next->kind() == c10::aten::add && next->inputs().size() == 2 &&
           next->input(0) == body->inputs()[input] && constantInt(next->input(1));
  }

  /// A number, a flag, or a tensor that does not grow with the samples. Not a list, which rounds
  /// extend.
  bool isHandedOn(const Value *result) const {
    const c10::TypeKind kind = result->type()->kind();
    const BatchForm &form = forms_.of(result);
    if (kind == c10::TypeKind::TensorType)
      return form.isFixed();
    return kind != c10::TypeKind::ListType && kind != c10::TypeKind::DictType &&
           kind != c10::TypeKind::TupleType;
  }

  void visitOperator(Node *node) {
    const bool isForm = roleOf(node, forms_).kind == OperatorRole::Kind::Form;
    const std::optional<Sample> taken = loop_ ? takenBy(node) : std::nullopt;
    Facts facts;
    for (size_t i = 0; i < node->inputs().size() && !isForm; ++i) {
      Facts input = of(node->input(i));
      if (taken && i > 0)
        input.sample.reset(); // an index is no element
      input.fromSamples = input.fromSamples || forms_.of(node->input(i)).any();
      input.seesOthers = input.seesOthers || (forms_.of(node->input(i)).any() && !input.sample);
      join(facts, input, node);
    }
    const bool seesOthers = llvm::any_of(node->inputs(), [&](const Value *input) {
      return forms_.of(input).any() && !of(input).sample;
    });
    if (loop_ && !seesOthers && facts.sample && facts.sample->round)
      found_.own.insert(node);
    if (taken) {
      facts.sample = taken;
      facts.seesOthers = !taken->round;
    }
    const c10::FunctionSchema *schema = node->maybeSchema();
    if (schema && schema->is_mutable() && !node->inputs().empty())
      visitWrite(node, facts);
    for (const Value *output : node->outputs())
      facts_[output] = facts;
  }

  void visitWrite(Node *node, Facts &facts) {
    static const Names kItem = {"_set_item"}, kExtends = {"append", "extend", "insert"};
    static const Names kParts = {"select",  "slice",     "narrow",  "view", "unsqueeze",
                                 "squeeze", "transpose", "permute", "t"};
    join(facts, decides_, node);
    Value *written = node->input(0);
    const BatchForm &form = forms_.of(written);
    const bool isPart = of(written).sample.has_value();
    const bool isFixed = isTensor(written) && form.isFixed();
    while (isIn(kParts, written->node()))
      written = written->node()->input(0);
    const bool isOutside = loop_ && !isInside(written->node(), loop_->blocks()[0]);
    const bool isItem = isIn(kItem, node);
    if (loop_ && !isOutside && !facts_[written].sample && !isTensor(written))
      facts_[written].sample = facts.sample; // a list of the round
    const std::optional<Linear> key = isItem ? linearOf(node->input(1)) : std::nullopt;
    const bool isOwnItem = key && key->round;
    if (loop_ && isOwnItem)
      join(facts, {false, false, Sample{key->round, key->offset, nullptr}}, node);
    // A condition on one sample decides a write to all samples, or a value of one is written.
    if (loop_ && isTensor(written) && !isPart && form.any() && decides_.sample)
      found_.relating.insert(node);
    if (isOutside && !isPart && isFixed && facts.fromSamples)
      found_.relating.insert(node);
    if (isOutside && isItem && !isOwnItem && facts.fromSamples)
      found_.relating.insert(node);
    if (isOutside && decides_.fromSamples && isIn(kExtends, node) && !extendsInBoth(node))
      found_.selecting.insert(node);
    if (isOutside && isIn(kExtends, node) && facts.fromSamples)
      found_.extended.insert(written);
    facts_[written].fromSamples |= facts.fromSamples;
  }

  /// Whether the other side of the branch extends the list, too.
  static bool extendsInBoth(const Node *node) {
    const Node *branch = node->owningBlock()->owningNode();
    return branch && branch->kind() == c10::prim::If &&
           llvm::all_of(branch->blocks(), [&](const Block *side) {
             return llvm::any_of(side->nodes(), [&](const Node *other) {
               return other->kind() == node->kind() && other->input(0) == node->input(0);
             });
           });
  }

  /// The sample that an operator takes a part of. nullopt: it takes none, or elements select the
  /// sample.
  std::optional<Sample> takenBy(Node *node) const {
    // Sizes of what one sample has may follow the number of samples by chance.
    if (const Facts whole = node->inputs().empty() ? Facts() : of(node->input(0));
        whole.sample && whole.sample->round && !whole.seesOthers)
      return std::nullopt;
    static const Names kTakes = {"select", "slice", "narrow"}, kItems = {"__getitem__"};
    if (isIn(kItems, node))
      return of(node->input(0)).fromSamples ? sampleAt(node, node->input(1), 1, 1) : std::nullopt;
    if (!isIn(kTakes, node) || !isTensor(node->input(0)))
      return std::nullopt;
    const std::vector<bool> &dims = forms_.of(node->input(0)).dims;
    std::optional<int64_t> dim = constantInt(inputNamed(node, "dim"));
    if (dim && *dim < 0)
      *dim += static_cast<int64_t>(dims.size());
    if (!dim || *dim < 0 || *dim >= static_cast<int64_t>(dims.size()) || !dims[*dim])
      return std::nullopt;
    const int64_t rows = std::max<int64_t>(1, forms_.rowsPerSample(node->input(0), *dim));
    if (Value *index = inputNamed(node, "index"))
      return sampleAt(node, index, 1, rows);
    Value *start = inputNamed(node, "start"), *end = inputNamed(node, "end");
    if (Value *length = inputNamed(node, "length"))
      return sampleAt(node, start, constantInt(length), rows);
    const bool fromFirst = isNone(start) || constantInt(start) == 0;
    const bool toLast = isNone(end) || constantInt(end) == std::numeric_limits<int64_t>::max();
    if (fromFirst && toLast)
      return std::nullopt;
    if (fromFirst || toLast)
      return Sample{nullptr, 0, node};
    const std::optional<Linear> from = linearOf(start), to = linearOf(end);
    std::optional<int64_t> count;
    if (from && to && from->round == to->round && from->factor == to->factor)
      count = to->offset - from->offset;
    return sampleAt(node, start, count, rows);
  }

  static bool isNone(const Value *value) {
    return !value || value->type()->kind() == c10::TypeKind::NoneType;
  }

  /// Of `count` rows from `index` on.
  std::optional<Sample> sampleAt(const Node *node, Value *index, std::optional<int64_t> count,
                                 int64_t rows) const {
    const std::optional<Linear> place = linearOf(index);
    if (!place && of(index).fromSamples)
      return std::nullopt;
    if (!place || !count)
      return Sample{nullptr, 0, node};
    const int64_t each = place->factor % rows == 0 ? rows : 1;
    const int64_t first = floorDivide(place->offset, each);
    if (floorDivide(place->offset + *count - 1, each) != first)
      return Sample{nullptr, 0, node};
    return Sample{place->round, first, nullptr};
  }

  std::optional<Linear> linearOf(const Value *value, int steps = 8) const {
    if (rounds_.count(value))
      return Linear{value, 1, 0};
    if (const std::optional<int64_t> constant = constantInt(value))
      return Linear{nullptr, 0, *constant};
    static const Names kSums = {"add", "sub"}, kProducts = {"mul"}, kRanges = {"__derive_index"};
    Node *node = const_cast<Value *>(value)->node();
    if (steps == 0 || node->inputs().size() < 2)
      return std::nullopt;
    const std::optional<Linear> a = linearOf(node->input(0), steps - 1),
                                b = linearOf(node->input(1), steps - 1);
    if (!a || !b || (a->round && b->round))
      return std::nullopt;
    const Value *round = a->round ? a->round : b->round;
    if (isIn(kRanges, node)) { // the round, the first number and the step
      const std::optional<int64_t> step = constantInt(node->input(2));
      return step ? std::optional(Linear{round, a->factor * *step, a->offset * *step + b->offset})
                  : std::nullopt;
    }
    if (isIn(kProducts, node) && (!a->round || !b->round)) {
      const Linear &other = a->round ? *b : *a, &own = a->round ? *a : *b;
      return Linear{round, own.factor * other.offset, own.offset * other.offset};
    }
    if (!isIn(kSums, node) || value->type()->kind() != c10::TypeKind::IntType)
      return std::nullopt;
    const int64_t sign = node->kind() == c10::aten::sub ? -1 : 1;
    return Linear{round, a->factor + sign * b->factor, a->offset + sign * b->offset};
  }

  const BatchForms &forms_;
  std::unordered_map<const Value *, Facts> facts_; // looked up by pointer only
  std::unordered_set<const Value *> rounds_;       // numbers of rounds of loops over samples
  const Node *loop_ = nullptr;                     // the innermost loop over samples
  Facts decides_;                                  // of the conditions around an operator
  SampleLoops found_;
};

} // namespace

/// Whether a number of rounds, or a condition such as `i < x.size(0)`, is made of a number that
/// follows the samples.
static bool isMadeOfNumber(const Value *value, const BatchForms &forms, int steps = 4) {
  const c10::TypeKind kind = value->type()->kind();
  if (kind != c10::TypeKind::IntType && kind != c10::TypeKind::BoolType)
    return false;
  const std::optional<Dim> &number = forms.of(value).number;
  if (number && number->perBatch > 0)
    return true;
  const Node *node = value->node();
  return steps > 0 && node->kind() != c10::prim::Param &&
         llvm::any_of(node->inputs(),
                      [&](const Value *input) { return isMadeOfNumber(input, forms, steps - 1); });
}

bool loopsOverSamples(const Node *loop, const BatchForms &forms) {
  return isMadeOfNumber(loop->input(0), forms) ||
         isMadeOfNumber(loop->blocks()[0]->outputs()[0], forms);
}

SampleLoops sampleLoops(const Model &model, const BatchForms &forms) {
  return Walker(forms).walk(model);
}

} // namespace pipec

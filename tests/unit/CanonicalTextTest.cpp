// What is a difference between two graphs for the compiler's proof, and what is none.
#include "ir/text/CanonicalText.h"

#include "ir/text/ModelText.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <functional>

namespace pipec {
namespace {

/// LibTorch orders results of branches, and what loops carry, by their first uses, which are others
/// in a stage than in the whole model.
TEST(CanonicalLines, OrderOfResultsIsNoDifference) {
  auto linesOf = [](const std::string &results, const std::string &first, const std::string &second,
                    const std::string &carried) {
    return canonicalLines(take(parseModel("model {\n  graph(%x : Tensor, %c : bool, %n : int):\n"
                                          "    %one : int = prim::Constant[value=1]()\n"
                                          "    %true : bool = prim::Constant[value=1]()\n"
                                          "    %s : Tensor = aten::sin(%x)\n" +
                                          ("    " + results) +
                                          " = prim::If(%c)\n"
                                          "      block0():\n"
                                          "        %p : Tensor = aten::neg(%x)\n"
                                          "        -> (" +
                                          first +
                                          ")\n"
                                          "      block1():\n"
                                          "        %q : Tensor = aten::relu(%x)\n"
                                          "        -> (" +
                                          second + ")\n" + carried +
                                          "    %y : Tensor = aten::sub(%b, %a, %one)\n"
                                          "    %z : Tensor = aten::sub(%y, %v, %one)\n"
                                          "    %r : Tensor = aten::sub(%z, %u, %one)\n"
                                          "    return (%r)\n}\n")));
  };
  const std::string loop = "    %u : Tensor, %v : Tensor, %w : Tensor = "
                           "prim::Loop(%n, %true, %s, %s, %x)\n"
                           "      block0(%i : int, %d : Tensor, %e : Tensor, %f : Tensor):\n"
                           "        %g : Tensor = aten::add(%e, %f, %one)\n"
                           "        -> (%true, %g, %d, %f)\n";
  const std::string turned = "    %w : Tensor, %v : Tensor, %u : Tensor = "
                             "prim::Loop(%n, %true, %x, %s, %s)\n"
                             "      block0(%i : int, %f : Tensor, %e : Tensor, %d : Tensor):\n"
                             "        %g : Tensor = aten::add(%e, %f, %one)\n"
                             "        -> (%true, %f, %d, %g)\n";
  const std::string other = "    %u : Tensor, %v : Tensor, %w : Tensor = "
                            "prim::Loop(%n, %true, %s, %s, %x)\n"
                            "      block0(%i : int, %d : Tensor, %e : Tensor, %f : Tensor):\n"
                            "        %g : Tensor = aten::add(%d, %f, %one)\n"
                            "        -> (%true, %g, %d, %f)\n";
  const std::string ab = "%a : Tensor, %b : Tensor", ba = "%b : Tensor, %a : Tensor";
  const std::vector<std::string> lines = linesOf(ab, "%p, %x", "%x, %q", loop);
  EXPECT_EQ(linesOf(ba, "%x, %p", "%q, %x", loop), lines);
  EXPECT_EQ(linesOf(ab, "%p, %x", "%x, %q", turned), lines);
  EXPECT_NE(linesOf(ab, "%x, %p", "%x, %q", loop), lines);
  EXPECT_NE(linesOf(ba, "%p, %x", "%x, %q", loop), lines);
  EXPECT_NE(linesOf(ab, "%p, %x", "%x, %q", other), lines);
}

/// A model with one node that has the attribute `a` with this value.
using SetAttribute = std::function<void(torch::jit::Node *, c10::Symbol)>;
std::vector<std::string> linesWith(const SetAttribute &set) {
  Model parsed = take(parseModel("model {\n  graph(%x : Tensor):\n"
                                 "    %y : Tensor = aten::relu(%x)\n    return (%y)\n}\n"));
  set(*parsed.graph->nodes().begin(), c10::Symbol::attr("a"));
  return canonicalLines(parsed);
}

std::shared_ptr<torch::jit::Graph> graphOf(const char *op) {
  return take(parseModel(std::string("model {\n  graph(%x : Tensor):\n    %y : Tensor = ") + op +
                         "(%x)\n    return (%y)\n}\n"))
      .graph;
}

/// The proof compares these lines: an attribute kind without a text would let two different nodes
/// be equal.
TEST(CanonicalLines, EveryKindOfAttributeCounts) {
  using Node = torch::jit::Node;
  using torch::jit::AttributeKind;
  const c10::TypePtr tensor = c10::TensorType::get(), number = c10::IntType::get();
  const at::Tensor zero = at::zeros({2}), one = at::ones({2});
  const auto relu = graphOf("aten::relu"), neg = graphOf("aten::neg");
  struct Row {
    AttributeKind kind;
    SetAttribute first, second;
  };
  auto row = [](AttributeKind kind, auto set, auto first, auto second) {
    return Row{kind, [=](Node *node, c10::Symbol a) { (node->*set)(a, first); },
               [=](Node *node, c10::Symbol a) { (node->*set)(a, second); }};
  };
  using Complex = c10::complex<double>;
  const std::vector<Row> rows = {
      row(AttributeKind::f, &Node::f_, 0.0, -0.0),
      row(AttributeKind::fs, &Node::fs_, std::vector<double>{1, 2}, std::vector<double>{1, 3}),
      row(AttributeKind::c, &Node::c_, Complex(1, 2), Complex(1, 3)),
      row(AttributeKind::cs, &Node::cs_, std::vector<Complex>{{1, 2}},
          std::vector<Complex>{{1, 3}}),
      row(AttributeKind::i, &Node::i_, int64_t(1), int64_t(2)),
      row(AttributeKind::is, &Node::is_, std::vector<int64_t>{1, 2}, std::vector<int64_t>{12}),
      row(AttributeKind::s, &Node::s_, std::string("a"), std::string("b")),
      row(AttributeKind::ss, &Node::ss_, std::vector<std::string>{"a", "b"},
          std::vector<std::string>{"a,b"}),
      row(AttributeKind::t, &Node::t_, zero, one),
      row(AttributeKind::ts, &Node::ts_, std::vector<at::Tensor>{zero, one},
          std::vector<at::Tensor>{one, zero}),
      row(AttributeKind::g, &Node::g_, relu, neg),
      row(AttributeKind::gs, &Node::gs_, std::vector<std::shared_ptr<torch::jit::Graph>>{relu, neg},
          std::vector<std::shared_ptr<torch::jit::Graph>>{neg, relu}),
      row(AttributeKind::ty, &Node::ty_, tensor, number),
      row(AttributeKind::tys, &Node::tys_, std::vector<c10::TypePtr>{tensor, number},
          std::vector<c10::TypePtr>{number, tensor}),
      row(AttributeKind::ival, &Node::ival_, c10::IValue(1), c10::IValue(1.0)),
  };
  EXPECT_EQ(rows.size(), static_cast<size_t>(AttributeKind::ival) + 1) << "a kind has no row";
  for (const Row &each : rows) {
    SCOPED_TRACE(torch::jit::toString(each.kind));
    EXPECT_EQ(linesWith(each.first), linesWith(each.first));
    EXPECT_NE(linesWith(each.first), linesWith(each.second));
  }
}

std::string textOf(const c10::IValue &value) { return contentText(value, Detail::Exact); }

/// Values that differ in one property each: an equal text for two of them would let the proof take
/// one for the other.
TEST(ContentText, EveryPropertyOfAValueCounts) {
  const at::Tensor ones = at::ones({2, 2});
  auto quantised = [&](double scale, int64_t zeroPoint) {
    return at::_make_per_tensor_quantized_tensor(ones.to(at::kChar), scale, zeroPoint);
  };
  auto perChannel = [&](std::vector<double> scales, int64_t axis) {
    return at::_make_per_channel_quantized_tensor(
        ones.to(at::kChar), at::tensor(scales, at::kDouble), at::zeros({2}, at::kLong), axis);
  };
  const at::Tensor trained = at::ones({2, 2}).requires_grad_(true);
  // The dense form of both is the unit matrix: one stores a zero, one an element in two parts.
  auto sparse = [](std::vector<int64_t> rows, std::vector<int64_t> columns,
                   std::vector<double> values) {
    const at::Tensor indices =
        at::stack({at::tensor(rows, at::kLong), at::tensor(columns, at::kLong)});
    return at::sparse_coo_tensor(indices, at::tensor(values, at::kFloat), {2, 2});
  };
  const at::Tensor withZero = sparse({0, 0, 1}, {0, 1, 1}, {1, 0, 1}).coalesce(),
                   twice = sparse({0, 1, 1}, {0, 1, 1}, {1, 0.5, 0.5});
  const std::vector<std::pair<c10::IValue, c10::IValue>> rows = {
      {0.0, -0.0},
      {1, 1.0},
      {1, true},
      {at::zeros({1}), at::zeros({1}).neg()},
      {ones, trained},
      {ones, ones.to(at::kDouble)},
      {ones, at::ones({4})},
      {at::arange(4).view({2, 2}), at::arange(4).view({2, 2}).t().contiguous().t()},
      {ones, ones.to_sparse()},
      {ones.to_sparse(), ones.to_sparse_csr()},
      {twice, at::eye(2).to_sparse()},
      {withZero, at::eye(2).to_sparse()},
      {quantised(0.5, 0), quantised(0.25, 0)},
      {quantised(0.5, 0), quantised(0.5, 1)},
      {perChannel({1, 2}, 0), perChannel({1, 3}, 0)},
      {perChannel({1, 1}, 0), perChannel({1, 1}, 1)},
      {c10::List<int64_t>(), c10::List<double>()},
      {c10::List<at::Tensor>(), c10::List<int64_t>()},
      {c10::Dict<std::string, int64_t>(), c10::Dict<std::string, double>()},
      {c10::List<std::string>({"a", "b"}), c10::List<std::string>({"a,b"})},
      {c10::Device("cpu"), c10::Device("cuda:0")},
      {c10::Device("cuda:0"), c10::Device("cuda:1")},
      {c10::IValue(), std::string("None")},
      {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()},
  };
  for (const auto &[first, second] : rows) {
    SCOPED_TRACE(textOf(first));
    EXPECT_EQ(textOf(first), textOf(first));
    EXPECT_NE(textOf(first), textOf(second));
  }
  const at::Tensor nan = at::full({1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(textOf(nan), textOf(nan.clone())) << "NaN is compared by its bits";
}

/// LibTorch prints every generator alike.
TEST(ContentText, WhatHasNoTextEqualsNothing) {
  const c10::IValue generator(at::detail::createCPUGenerator(1));
  EXPECT_NE(textOf(generator), textOf(generator));
  const c10::IValue capsule =
      c10::IValue::make_capsule(c10::make_intrusive<torch::CustomClassHolder>());
  EXPECT_NE(textOf(capsule), textOf(capsule));
}

/// A quote in a text is no end of the text.
TEST(CanonicalLines, QuotesInAttributesCount) {
  auto withTexts = [](const std::string &a, const std::optional<std::string> &b) {
    return linesWith([&](torch::jit::Node *node, c10::Symbol name) {
      node->s_(name, a);
      if (b)
        node->s_(c10::Symbol::attr("b"), *b);
    });
  };
  EXPECT_NE(withTexts("1][b=\"2\"", std::nullopt), withTexts("1\"][b=\"2", std::nullopt));
  EXPECT_NE(withTexts("1", "2"), withTexts("1\"][b=\"2", std::nullopt));
}

/// A value that nothing defines has no name that another one could have, too.
TEST(CanonicalLines, WhatIsNotKnownEqualsNothing) {
  const Model parsed = take(parseModel("model {\n  graph(%x : Tensor):\n"
                                       "    %y : Tensor = aten::relu(%x)\n    return (%y)\n}\n"));
  torch::jit::Graph other;
  std::vector<torch::jit::Value *> foreign = {other.addInput()};
  EXPECT_NE(canonicalNames(parsed, foreign), canonicalNames(parsed, foreign));
}

} // namespace
} // namespace pipec

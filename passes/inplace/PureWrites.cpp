#include "passes/inplace/PureWrites.h"

#include "ir/Model.h"
#include "ir/NodeInfo.h"
#include "passes/analysis/Layouts.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace pipec {

namespace {

constexpr llvm::StringLiteral kYes = "yes", kNo = "no";

using torch::jit::Node;
using torch::jit::Value;

/// Whether the operator that makes the memory says by itself that its elements are no complex
/// numbers.
bool makesReal(Node *maker) {
  const Value *dtype = inputNamed(maker, "dtype");
  if (std::optional<int64_t> given = constantInt(dtype))
    return !c10::isComplexType(static_cast<c10::ScalarType>(*given));
  const std::string name = maker->kind().toUnqualString();
  if (!dtype || dtype->type()->kind() != c10::TypeKind::NoneType || name.rfind("new_", 0) == 0)
    return false; // that of another tensor, or of an argument
  const Value *fill = inputNamed(maker, "fill_value");
  if (!fill)
    return true;
  const c10::TypeKind kind = fill->type()->kind();
  return kind == c10::TypeKind::FloatType || kind == c10::TypeKind::IntType ||
         kind == c10::TypeKind::BoolType;
}

bool holdsComplex(const Attribute &attribute) {
  return attribute.value.isTensor() && attribute.value.toTensor().defined() &&
         attribute.value.toTensor().is_complex();
}

bool keepsFormWith(const Layout &layout, const c10::Type &other, const Node *writer) {
  if (!keepsStrides(layout))
    return false;
  if (other.kind() != c10::TypeKind::TensorType) {
    const bool whole =
        other.kind() == c10::TypeKind::IntType || other.kind() == c10::TypeKind::BoolType;
    if (c10::isIntegralType(layout.dtype, /*includeBool=*/false))
      return whole && writer->kind() != c10::Symbol::aten("div_");
    return c10::isFloatingType(layout.dtype) && (whole || other.kind() == c10::TypeKind::FloatType);
  }
  std::optional<Layout> second = layoutOf(other);
  if (!second || second->dtype != layout.dtype || !c10::isFloatingType(layout.dtype))
    return false;
  return (second->sizes == layout.sizes && second->strides == layout.strides) ||
         (isContiguous(layout) && isContiguous(*second) &&
          broadcastsInto(second->sizes, layout.sizes));
}

} // namespace

PureWrites::PureWrites(Model &model, TypeAnswers &answers, bool trains,
                       std::function<void(Node *, Node *)> noteMade)
    : answers_(answers), trains_(trains),
      trainsComplex_(trains && llvm::any_of(model.attributes, holdsComplex)), names_(*model.graph),
      noteMade_(std::move(noteMade)) {}

Value *PureWrites::pure(Node *writer, Value *target) {
  std::string name = writer->kind().toUnqualString();
  name.pop_back();
  std::vector<Value *> inputs = writer->inputs().vec();
  inputs[0] = target;
  return insert(writer, c10::Symbol::aten(name), inputs);
}

Value *PureWrites::like(Node *writer, Value *target) {
  return insert(writer, c10::aten::expand_as, {writer->input(1), target});
}

Value *PureWrites::replaced(Node *writer, Value *old, Value *by) {
  torch::jit::WithInsertPoint guard(writer);
  torch::jit::Graph &graph = *writer->owningGraph();
  Value *zero = graph.insertConstant(0), *one = graph.insertConstant(1);
  Value *none = graph.insertConstant(c10::IValue());
  return insert(writer, c10::Symbol::aten("slice_scatter"), {old, by, zero, none, none, one});
}

/// The backward of select puts its gradient into a tensor of its own.
Value *PureWrites::withContiguousGradient(Node *writer, Value *value) {
  if (!trains_)
    return value;
  torch::jit::WithInsertPoint guard(writer);
  Value *zero = writer->owningGraph()->insertConstant(0);
  return insert(writer, c10::aten::select,
                {insert(writer, c10::aten::unsqueeze, {value, zero}), zero, zero});
}

bool PureWrites::ask(const char *property, bool untyped, Node *asker, const Value *value,
                     llvm::function_ref<bool(const Layout &)> predicate) {
  const TypeQuestion question = names_.question(asker, property);
  const std::string *noted = answers_.find(question);
  const bool known = noted ? *noted == kYes : untyped;
  if (answers_.given)
    return known;
  std::optional<Layout> layout = layoutOf(*value->type());
  // slice_scatter, select_scatter and zero have no derivative for complex numbers.
  const bool hasForm = !layout || !trains_ || !c10::isComplexType(layout->dtype);
  const bool typed = hasForm && (layout ? predicate(*layout) : untyped);
  if (typed != known)
    answers_.note(question, (typed ? kYes : kNo).str());
  return typed;
}

bool PureWrites::makesContiguous(Node *maker) const {
  return pipec::makesContiguous(maker) && (!trains_ || makesReal(maker));
}

bool PureWrites::makesDense(const Value *now, const Node *writer) const {
  // silu_ has a derivative for complex numbers, and silu has none.
  static const c10::Symbol silu = c10::Symbol::aten("silu_");
  return pipec::makesDense(now->node()) && !(trainsComplex_ && writer->kind() == silu);
}

bool PureWrites::isContiguous(bool untyped, Node *asker, const Value *value) {
  return ask("contiguous", untyped, asker, value, pipec::isContiguous);
}

bool PureWrites::hasDims(Node *asker, const Value *value) {
  return ask("dimensions", false, asker, value,
             [](const Layout &layout) { return !layout.sizes.empty(); });
}

bool PureWrites::keepsForm(const Value *now, bool contiguous, Node *writer, PureForm form) {
  switch (form) {
  case PureForm::Copy:
    return hasDims(writer, now);
  case PureForm::Fill:
  case PureForm::Indexed:
    return isContiguous(contiguous, writer, now);
  case PureForm::Unary:
    // A bound of clamp_ may broadcast.
    return !readsOtherTensor(writer) && ask("float without gaps", makesDense(now, writer), writer,
                                            now, [](const Layout &layout) {
                                              return c10::isFloatingType(layout.dtype) &&
                                                     keepsStrides(layout);
                                            });
  case PureForm::Binary:
    return ask("form of both kept", false, writer, now, [&](const Layout &layout) {
      return hasNoRounding(writer) && keepsFormWith(layout, *writer->input(1)->type(), writer);
    });
  case PureForm::None:
  case PureForm::View:
    break;
  }
  return false;
}

bool PureWrites::hasNoRounding(const Node *writer) {
  return writer->kind() != c10::Symbol::aten("div_") || writer->inputs().size() == 2;
}

Value *PureWrites::insert(Node *writer, c10::Symbol kind, at::ArrayRef<Value *> inputs) {
  Node *made = writer->owningGraph()->create(kind, inputs);
  made->insertBefore(writer)->copyMetadata(writer);
  if (made->maybeOperator()) {
    noteMade_(made, writer);
    return made->output();
  }
  made->destroy(); // no such form with these arguments
  return nullptr;
}

} // namespace pipec

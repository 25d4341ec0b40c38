// Checks whether the plan's description of arguments, results and tensors is possible.
#include "ir/plan/SignatureVerifier.h"

#include "ir/plan/DefaultValue.h"
#include "ir/plan/Faults.h"
#include "ir/plan/MergeBySizes.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <optional>
#include <set>

namespace pipec {

using namespace planparts;

namespace {

/// Bytes at batch size `batch` when an element has `size`; -1 when that is no number; nothing when
/// a size is only known at run time.
std::optional<int64_t> bytesOf(const TensorSpec &spec, int64_t batch, int64_t size) {
  int64_t bytes = size;
  for (const Dim &dim : spec.shape) {
    if (dim.dynamic)
      return std::nullopt;
    int64_t length = 0;
    if (__builtin_mul_overflow(dim.perBatch, batch, &length) ||
        __builtin_add_overflow(length, dim.constant, &length) ||
        __builtin_mul_overflow(bytes, length, &bytes))
      bytes = -1;
    if (bytes < 0)
      return -1;
  }
  return bytes;
}

bool isIdentifier(llvm::StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Whether an argument of this type can have this default, as far as the type's text tells.
bool defaultFits(llvm::StringRef type, const llvm::json::Value &value) {
  auto inside = [&](llvm::StringRef container) {
    llvm::StringRef rest = type;
    return rest.consume_front(container) && rest.consume_front("[") && rest.consume_back("]")
               ? std::optional<llvm::StringRef>(rest)
               : std::nullopt;
  };
  if (type == "int")
    return bool(value.getAsInteger());
  if (type == "bool")
    return bool(value.getAsBoolean());
  if (type == "str")
    return bool(value.getAsString());
  if (type == "float")
    return floatFromDefault(value).has_value();
  if (type == "complex")
    return complexFromDefault(value).has_value();
  if (type == "Device")
    return deviceFromDefault(value).has_value();
  if (type == "NoneType")
    return bool(value.getAsNull());
  if (auto element = inside("Optional"))
    return value.getAsNull() || defaultFits(*element, value);
  if (auto element = inside("List"))
    return value.getAsArray() && llvm::all_of(*value.getAsArray(), [&](const auto &each) {
             return defaultFits(*element, each);
           });
  return true;
}

class SignatureVerifier {
public:
  explicit SignatureVerifier(const Plan &plan) : plan_(plan), signature_(plan.signature) {}

  llvm::Error run() {
    if (!isIdentifier(signature_.method))
      return bad("method: expected the name of a method, got \"{}\"", signature_.method);
    if (signature_.batchSize < 0)
      return bad("batch size {} is negative", signature_.batchSize);
    for (size_t i = 0; i < signature_.inputs.size(); ++i)
      TRY(input(i));
    size_t seen = 0;
    TRY(tree(signature_.outputs, "", seen));
    if (seen != signature_.leaves.size())
      return bad("output tree: has {} outputs, but {} are described", seen,
                 signature_.leaves.size());
    // After the tree, which has the paths of the outputs.
    for (size_t l = 0; l < signature_.leaves.size(); ++l)
      TRY(leaf(l));
    return llvm::Error::success();
  }

private:
  static bool isNew(const MergeRule &rule) {
    return rule.kind == MergeRule::Kind::Sum || rule.kind == MergeRule::Kind::Join;
  }

  llvm::Error input(size_t i) {
    const InputSpec &spec = signature_.inputs[i];
    std::string where = fmt::format("model input {} ({})", i, spec.name);
    if (spec.name.empty() || !names_.insert(spec.name).second)
      return badAt(where, "expected a name of its own");
    if (spec.batchDim && *spec.batchDim < 0)
      return badAt(where, "batch dimension {} is negative", *spec.batchDim);
    if (spec.defaultValue) {
      if (llvm::Error error = checkDefault(*spec.defaultValue))
        return withContext(std::move(error), where + ": default");
      if (!defaultFits(spec.type, *spec.defaultValue))
        return badAt(where, "default: expected a value of type {}, got {}", spec.type,
                     llvm::formatv("{0}", *spec.defaultValue).str());
    }
    for (size_t p = 0; p < spec.parts.size(); ++p) {
      const PartDim &part = spec.parts[p];
      if (part.path.empty() || (p > 0 && part.path <= spec.parts[p - 1].path))
        return badAt(where, "parts: expected paths in order, each once, got \"{}\"", part.path);
      if (part.dim && *part.dim < 0)
        return badAt(where, "part {}: batch dimension {} is negative", part.path, *part.dim);
    }
    if (!spec.parts.empty() && (spec.tensor.known || spec.type == "Tensor"))
      return badAt(where, "type {} has no parts", spec.type);
    if (holdsNoTensor(spec.type) && (spec.tensor.known || isCut(spec)))
      return badAt(where, "type {} is not a tensor, but a tensor is described or cut", spec.type);
    TRY(verifyTensor(plan_, where, spec.tensor));
    return spec.tensor.known ? batchDim(where, spec) : llvm::Error::success();
  }

  /// Micro-batches are cut along the dimension whose size is the batch; nothing else follows it.
  llvm::Error batchDim(const std::string &where, const InputSpec &spec) {
    const std::vector<Dim> &shape = spec.tensor.shape;
    if (!spec.batchDim) {
      for (const Dim &dim : shape)
        if (!dim.dynamic && dim.perBatch != 0)
          return badAt(where, "size {}: expected sizes without B where no dimension is cut",
                       toString(dim));
      return llvm::Error::success();
    }
    if (*spec.batchDim >= static_cast<int64_t>(shape.size()))
      return badAt(where, "batch dimension: expected one below {}, got {}", shape.size(),
                   *spec.batchDim);
    const Dim expected =
        signature_.batchSymbolic
            ? Dim{.perBatch = 1, .constant = 0, .dynamic = false}
            : Dim{.perBatch = 0, .constant = signature_.batchSize, .dynamic = false};
    if (shape[*spec.batchDim] != expected)
      return badAt(where, "batch dimension {}: expected size {}, got {}", *spec.batchDim,
                   toString(expected), toString(shape[*spec.batchDim]));
    return llvm::Error::success();
  }

  llvm::Error leaf(size_t l) {
    const OutputLeaf &it = signature_.leaves[l];
    std::string where = "output " + outputPath(signature_, l);
    if (it.merge.dim < 0)
      return badAt(where, "merge dimension {} is negative", it.merge.dim);
    if (holdsNoTensor(it.type) && (it.tensor.known || it.merge.kind == MergeRule::Kind::Concat))
      return badAt(where, "type {} is not a tensor, but a tensor is described or joined", it.type);
    TRY(verifyTensor(plan_, where, it.tensor));
    return it.tensor.known || isNew(it.merge) ? merge(where, it) : llvm::Error::success();
  }

  /// The rule that the sizes imply, unless the plan has the feature of other rules.
  llvm::Error merge(const std::string &where, const OutputLeaf &leaf) {
    const bool others = llvm::is_contained(plan_.requiredFeatures, kMergeRulesFeature);
    const std::string problem = others ? mergeProblem(leaf) : mergeAgainstSizes(signature_, leaf);
    return problem.empty() ? llvm::Error::success() : badAt(where, "merge rule: {}", problem);
  }

  /// Leaves are numbered in depth-first order. A dict has keys; a NamedTuple has a name and may
  /// have the names of its fields.
  llvm::Error tree(const OutputTree &node, const std::string &path, size_t &seen) {
    if (node.kind == OutputTree::Kind::Leaf) {
      if (!node.children.empty() || !node.keys.empty())
        return bad("output tree: output {} has children", leafPath(path));
      if (node.leaf != seen)
        return bad("output tree: output {}: expected number {}, got {}", leafPath(path), seen,
                   node.leaf);
      ++seen;
      return llvm::Error::success();
    }
    if (!node.typeName.empty() && node.kind != OutputTree::Kind::Tuple)
      return bad("output tree: {} with the type name {}: only a tuple has one",
                 toString(node.kind).str(), node.typeName);
    bool hasKeys =
        node.kind == OutputTree::Kind::Dict ||
        (node.kind == OutputTree::Kind::Tuple && !node.typeName.empty() && !node.keys.empty());
    size_t keys = hasKeys ? node.children.size() : 0;
    std::set<std::string> distinct(node.keys.begin(), node.keys.end());
    if (node.keys.size() != keys || distinct.size() != keys)
      return bad("output tree: {} with {} values: expected {} distinct keys, got {}",
                 toString(node.kind).str(), node.children.size(), keys, distinct.size());
    for (size_t i = 0; i < node.children.size(); ++i)
      TRY(tree(node.children[i], childPath(path, node, i), seen));
    return llvm::Error::success();
  }

  const Plan &plan_;
  const Signature &signature_;
  std::set<std::string> names_;
};

} // namespace

llvm::Error planparts::verifySignature(const Plan &plan) { return SignatureVerifier(plan).run(); }

llvm::Error planparts::verifyTensor(const Plan &plan, const std::string &where,
                                    const TensorSpec &spec) {
  if (spec.bytes < 0)
    return badAt(where, "tensor of {} bytes", spec.bytes);
  if (!spec.known)
    return spec == TensorSpec()
               ? llvm::Error::success()
               : badAt(where, "tensor: expected nothing where nothing is known, got dtype \"{}\"",
                       spec.dtype);
  if (spec.dtype.empty())
    return badAt(where, "tensor without a dtype");
  std::optional<int64_t> size = bytesOfDtype(spec.dtype);
  if (!size)
    return badAt(where, "dtype: expected a dtype of PyTorch, got {}", spec.dtype);
  if (spec.shape.size() != spec.strides.size())
    return badAt(where, "tensor with {} sizes and {} strides", spec.shape.size(),
                 spec.strides.size());
  if (spec.requiresGrad && !isDifferentiable(spec.dtype))
    return badAt(where, "requires_grad: expected false for dtype {}, got true", spec.dtype);
  std::optional<int64_t> bytes = bytesOf(spec, plan.signature.batchSize, *size);
  if (bytes && *bytes != spec.bytes)
    return badAt(where, "bytes: expected {} as its sizes and dtype say, got {}", *bytes,
                 spec.bytes);
  return llvm::Error::success();
}

llvm::Error planparts::verifyObligations(const Plan &plan) {
  for (size_t i = 0; i < plan.obligations.size(); ++i) {
    const Obligation &obligation = plan.obligations[i];
    const std::string where = fmt::format("obligation {} ({})", i, toString(obligation));
    for (size_t j = 0; j < i; ++j)
      if (plan.obligations[j] == obligation)
        return badAt(where, "is there twice");
    if (obligation.kind == Obligation::Kind::Recompute) {
      if (obligation.stage >= plan.stages.size())
        return badAt(where, "expected a stage below {}, got {}", plan.stages.size(),
                     obligation.stage);
      continue;
    }
    if (obligation.kind == Obligation::Kind::Reorder) {
      for (size_t j = 0; j < i; ++j)
        if (plan.obligations[j].kind == Obligation::Kind::Reorder)
          return badAt(where, "expected one order of the operators, got a second one");
      continue; // linking shows whether the stages have as many operators
    }
    llvm::StringRef argument = obligation.of;
    if (argument.consume_front("input ") &&
        llvm::none_of(plan.signature.inputs,
                      [&](const InputSpec &input) { return input.name == argument; }))
      return badAt(where, "expected an argument of the model, got {}", argument.str());
    if (obligation.property == "value") { // its type allows nothing else
      for (const InputSpec &input : plan.signature.inputs)
        if (obligation.of == "input " + input.name && input.type != "NoneType")
          return badAt(where, "expected type NoneType as the signature's, got {}", input.type);
      continue;
    }
    // A fact holds for every accepted input, because the runtime compares dtype and rank of tensors
    // with the signature. So the signature must know them and agree with the fact.
    for (const InputSpec &input : plan.signature.inputs) {
      if (input.type != "Tensor")
        continue;
      if (!input.tensor.known)
        return badAt(where, "input {}: expected a known dtype and rank, got none", input.name);
      const std::string known = obligation.property == "rank"
                                    ? std::to_string(input.tensor.shape.size())
                                    : input.tensor.dtype;
      if (obligation.of == "input " + input.name && known != obligation.value)
        return badAt(where, "expected {} {} as the signature says, got {}", obligation.property,
                     known, obligation.value);
    }
  }
  return llvm::Error::success();
}

} // namespace pipec

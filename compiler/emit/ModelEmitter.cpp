#include "compiler/emit/ModelEmitter.h"

#include "compiler/emit/ModuleBuilder.h"
#include "ir/Model.h"
#include "ir/support/Try.h"
#include "ir/values/BindArguments.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <sstream>

namespace pipec {

namespace {

class ModelEmitter : ModuleBuilder {
public:
  // Training flags are folded into the graph; the modules' own flags are false.
  explicit ModelEmitter(const Model &model)
      : ModuleBuilder("__torch__.pipec.Model", /*training=*/false), model_(model) {}

  llvm::Expected<torch::jit::Module> build() {
    for (size_t i = 0; i < model_.attributes.size(); ++i) {
      const Attribute &attribute = model_.attributes[i];
      for (const std::string &name : attribute.allNames())
        registerAs(name, attribute.kind, llvm::is_contained(attribute.plainNames, name),
                   attribute.value, inputOf(i)->type());
    }
    TRY(addMethod());
    return module_;
  }

private:
  torch::jit::Value *inputOf(size_t attribute) const {
    return model_.graph->inputs()[model_.argumentCount() + attribute];
  }

  llvm::Error addMethod() {
    std::shared_ptr<torch::jit::Graph> graph = beginMethod();
    std::vector<torch::jit::Value *> values;
    for (size_t i = 0; i < model_.argumentCount(); ++i)
      values.push_back(
          addInput(*graph, model_.signature.inputs[i].name, model_.graph->inputs()[i]->type()));
    for (size_t i = 0; i < model_.attributes.size(); ++i)
      values.push_back(inputOf(i)->hasUses() ? loadAttribute(*graph, model_.attributes[i].name)
                                             : graph->inputs()[0]);
    results_ = torch::jit::insertGraph(*graph, *model_.graph, values);
    size_t leaves = model_.signature.leaves.size();
    for (size_t i = 0; i < model_.stateOutputs.size(); ++i)
      storeAttribute(*graph, model_.attributes[model_.stateOutputs[i]].name, results_[leaves + i]);
    torch::jit::Value *result = TRY(tree(*graph, model_.signature.outputs));
    torch::jit::Function *function = TRY(finish(model_.signature.method, graph, result));
    c10::FunctionSchema schema = TRY(withDefaults(function->getSchema()));
    function->setSchema(std::move(schema));
    return llvm::Error::success();
  }

  /// The names and default values of the source's arguments.
  llvm::Expected<c10::FunctionSchema> withDefaults(const c10::FunctionSchema &schema) const {
    std::vector<c10::Argument> arguments = schema.arguments();
    for (size_t i = 0; i < model_.argumentCount(); ++i) {
      const InputSpec &input = model_.signature.inputs[i];
      c10::Argument &argument = arguments[i + 1];
      std::optional<c10::IValue> value = TRY(defaultOf(input, argument));
      argument = c10::Argument(input.name, argument.type(), std::nullopt, std::move(value));
    }
    return schema.cloneWithArguments(std::move(arguments));
  }

  static llvm::Expected<std::optional<c10::IValue>> defaultOf(const InputSpec &input,
                                                              const c10::Argument &argument) {
    if (!input.defaultValue)
      return std::nullopt;
    Signature one;
    one.inputs = {input};
    llvm::Expected<std::vector<c10::IValue>> bound = bindArguments(one, {argument.type()}, {});
    if (!bound)
      return withContext(bound.takeError(), "default of " + input.name);
    return (*bound)[0];
  }

  /// Builds the result from its parts, as the source does.
  llvm::Expected<torch::jit::Value *> tree(torch::jit::Graph &graph, const OutputTree &node) {
    if (node.kind == OutputTree::Kind::Leaf)
      return results_[node.leaf];
    std::vector<torch::jit::Value *> children;
    std::vector<c10::TypePtr> types;
    for (const OutputTree &child : node.children) {
      torch::jit::Value *value = TRY(tree(graph, child));
      children.push_back(value);
      types.push_back(children.back()->type());
    }
    if (node.kind == OutputTree::Kind::Tuple)
      return graph.insertNode(graph.createTuple(children, namedTuple(node, types)))->output();
    c10::TypePtr element = TRY(commonType(types));
    if (node.kind == OutputTree::Kind::List)
      return graph.insertNode(graph.createList(element, children))->output();
    std::vector<torch::jit::Value *> keys;
    for (const std::string &key : node.keys)
      keys.push_back(graph.insertConstant(key));
    return graph.insertNode(graph.createDict(c10::StringType::get(), element, keys, children))
        ->output();
  }

  /// Null for a plain tuple, and for one of an artifact that does not say its fields.
  c10::TupleTypePtr namedTuple(const OutputTree &node, const std::vector<c10::TypePtr> &types) {
    if (node.keys.empty())
      return nullptr;
    // Two types may have one name, so the number in the path distinguishes them.
    for (size_t number = 1;; ++number) {
      c10::QualifiedName name("__torch__.pipec.named" + std::to_string(number) + "." +
                              node.typeName);
      auto type = c10::TupleType::createNamed(name, node.keys, types);
      c10::NamedTypePtr known = unit_->get_type(name);
      if (known && *known == *type)
        return known->expect<c10::TupleType>();
      if (known)
        continue;
      unit_->register_type(type);
      return type;
    }
  }

  static llvm::Expected<c10::TypePtr> commonType(const std::vector<c10::TypePtr> &types) {
    if (types.empty())
      return c10::TypePtr(c10::TensorType::get());
    std::ostringstream why;
    std::optional<c10::TypePtr> common = c10::unifyTypeList(types, why, /*default_to_union=*/false);
    if (!common)
      return makeError(ExitCode::Internal,
                       "the parts of the result have no common type: " + why.str());
    return *common;
  }

  const Model &model_;
  std::vector<torch::jit::Value *> results_;
};

} // namespace

llvm::Expected<torch::jit::Module> moduleOf(const Model &model) {
  return ModelEmitter(model).build();
}

} // namespace pipec

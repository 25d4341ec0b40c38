#include "ir/torchfile/JoinLoss.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <set>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// The arguments of the loss: the model's result as it is, or the elements of the tuple that it is.
llvm::Expected<std::vector<c10::TypePtr>> takenApart(const c10::TypePtr &result,
                                                     llvm::ArrayRef<c10::Argument> taken) {
  auto fits = [&](llvm::ArrayRef<c10::TypePtr> types) {
    if (taken.size() < types.size())
      return false;
    for (size_t i = 0; i < types.size(); ++i)
      if (!types[i]->isSubtypeOf(*taken[i].type()))
        return false;
    return true;
  };
  std::vector<c10::TypePtr> types = {result};
  if (fits(types))
    return types;
  if (const auto tuple = result->cast<c10::TupleType>())
    if (fits(tuple->elements().vec()))
      return tuple->elements().vec();
  std::string list;
  for (const c10::Argument &argument : taken)
    list += (list.empty() ? "" : ", ") + argument.type()->annotation_str();
  return makeError(ExitCode::Usage,
                   fmt::format("--loss: expected a forward that takes the model's result, {}, and "
                               "then targets, got one that takes ({})",
                               result->annotation_str(), list),
                   "the loss is a module: forward(self, output, target) -> Tensor");
}

/// The arguments of the joined method. Those after one with a default have one, too, or none has.
std::vector<c10::Argument> joinedArguments(llvm::ArrayRef<c10::Argument> ofModel,
                                           llvm::ArrayRef<c10::Argument> targets) {
  std::vector<c10::Argument> arguments;
  std::set<std::string> names;
  const bool keepsDefaults = llvm::all_of(
      targets, [](const c10::Argument &target) { return target.default_value().has_value(); });
  auto add = [&](const c10::Argument &argument, bool keepsDefault) {
    std::string name = argument.name();
    while (!names.insert(name).second)
      name += "_of_loss";
    arguments.emplace_back(name, argument.type(), argument.N(),
                           keepsDefault ? argument.default_value() : std::nullopt);
  };
  for (const c10::Argument &argument : ofModel)
    add(argument, keepsDefaults);
  for (const c10::Argument &target : targets)
    add(target, true);
  return arguments;
}

} // namespace

std::string nameOfJoinedLoss(const jit::Module &model) {
  std::string name = "loss";
  while (model.hasattr(name))
    name += '_';
  return name;
}

std::string nameOfJoinedMethod(const jit::Module &model) {
  const auto unit = model._ivalue()->compilation_unit();
  std::string name = "forward_with_loss";
  // Static methods and hooks are functions of the class, too.
  while (unit->find_function(c10::QualifiedName(*model.type()->name(), name)) ||
         model.hasattr(name))
    name += '_';
  return name;
}

llvm::Expected<JoinedLoss> joinLoss(jit::Module &model, const std::string &method,
                                    jit::Module loss) {
  const c10::FunctionSchema &ofModel = model.get_method(method).function().getSchema();
  const c10::FunctionSchema &ofLoss = loss.get_method("forward").function().getSchema();
  const auto taken = llvm::ArrayRef<c10::Argument>(ofLoss.arguments()).drop_front(); // self
  std::vector<c10::TypePtr> results = TRY(takenApart(ofModel.returns()[0].type(), taken));
  const JoinedLoss joined{nameOfJoinedMethod(model), method, nameOfJoinedLoss(model)};
  model.register_module(joined.submodule, loss);
  const std::vector<c10::Argument> arguments =
      joinedArguments(ofModel.arguments(), taken.drop_front(results.size()));

  auto graph = std::make_shared<jit::Graph>();
  std::vector<jit::Value *> given; // of the model, self first
  jit::Value *self = graph->addInput("self")->setType(model.type());
  given.push_back(self);
  for (const c10::Argument &argument : llvm::drop_begin(arguments))
    given.push_back(graph->addInput(argument.name())->setType(argument.type()));
  const llvm::ArrayRef<jit::Value *> all(given);
  const size_t ofModelCount = ofModel.arguments().size();
  jit::Node *call = graph->insertNode(graph->create(
      c10::prim::CallMethod, at::ArrayRef<jit::Value *>(given.data(), ofModelCount), 1));
  call->s_(c10::attr::name, method);
  call->output()->setType(ofModel.returns()[0].type());
  // The loss's class is of another file, and its body is copied: nothing calls into that file.
  std::shared_ptr<jit::Graph> body =
      jit::toGraphFunction(loss.get_method("forward").function()).graph()->copy();
  jit::Inline(*body);
  std::vector<jit::Value *> passed = {graph->insertGetAttr(self, joined.submodule)};
  if (results.size() == 1) {
    passed.push_back(call->output());
  } else {
    jit::Node *apart = graph->insertNode(graph->createTupleUnpack(call->output()));
    passed.insert(passed.end(), apart->outputs().begin(), apart->outputs().end());
  }
  const auto targets = all.drop_front(ofModelCount);
  passed.insert(passed.end(), targets.begin(), targets.end());
  graph->registerOutput(jit::insertGraph(*graph, *body, passed).at(0));

  auto unit = model._ivalue()->compilation_unit();
  jit::Function *function = unit->create_function(
      c10::QualifiedName(*model.type()->name(), joined.method), std::move(graph));
  function->setSchema(c10::FunctionSchema(joined.method, "", arguments,
                                          {c10::Argument("", ofLoss.returns()[0].type())}));
  model.type()->addMethod(function);
  return joined;
}

/// The body of the loss is pasted, so that its nodes do not know their modules. The classes of the
/// model and of the loss do.
TrainingModules trainingModulesWithLoss(const jit::Module &model, const std::string &method,
                                        const std::optional<JoinedLoss> &loss) {
  if (!loss)
    return trainingModules(model, method);
  TrainingModules found = trainingModules(model, loss->ofModel);
  found.add(trainingModules(model.attr(loss->submodule).toModule(), "forward", loss->submodule));
  return found;
}

} // namespace pipec

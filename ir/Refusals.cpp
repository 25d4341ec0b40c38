#include "ir/Refusals.h"

#include "ir/support/Check.h"

#include <fmt/args.h>

namespace pipec {

namespace {

constexpr RefusalRow kRefusals[] = {
    {Refusal::MarkerInBlock, "marker-in-block",
     "{} is inside {}, control flow that depends on {} and stays in one stage",
     "the nearest place is before {}; --nearest cuts there",
     "A marker is inside a branch or loop that depends on data or on an argument. Such control "
     "flow runs as one operator in one stage."},
    {Refusal::MarkerArguments, "marker-arguments",
     "{}: pipe_split takes one tensor and returns it, or takes and returns nothing; got {} "
     "arguments",
     "write `x = pipe_split(x)` with `def pipe_split(x): return x`",
     "A function named pipe_split does not have the form of a marker."},
    {Refusal::MarkerComputes, "marker-computes",
     "{}: pipe_split: expected a function that returns its one tensor argument, or takes and "
     "returns nothing, got one that does more",
     "rename your function, or write `def pipe_split(x: torch.Tensor) -> torch.Tensor: return x`",
     "A function named pipe_split computes something. As a marker, it would be dropped."},
    {Refusal::ModuleInBlock, "module-in-block",
     "module {} begins inside {}, control flow that depends on {} and stays in one stage",
     "the nearest place is before {}; --nearest cuts there",
     "--at names a module that is called inside a branch or loop that depends on data or on an "
     "argument."},
    {Refusal::ClassUnknown, "class-unknown",
     "{}: call of {} on a value of type {} whose class is only known at run time",
     "call each submodule by name, in its own branch",
     "A module is chosen at run time, so the compiler does not know what the call computes."},
    {Refusal::NoBody, "no-body", "{}: {} has no TorchScript body to inline",
     "write it as a custom operator (TORCH_LIBRARY) and load that with --load-library",
     "A method of a C++ class (torchbind) is called. The compiler does not know what it reads and "
     "writes. Operators that take such an object are supported."},
    {Refusal::ModuleAsValue, "module-as-value", "{}: the model uses a module as a value",
     "call the module's methods directly instead of storing or returning it",
     "A module is stored in a list, returned, or chosen between."},
    {Refusal::ObjectAttribute, "object-attribute",
     "{}: reads or writes {} of an object of class {} that cannot be replaced by its attributes{}",
     "use plain variables, tuples or a submodule instead",
     "The compiler replaces an object of a TorchScript class by its attributes if only its "
     "attributes and methods are used, otherwise by a tuple of them. It cannot do so for an object "
     "that is returned, compared, sorted, used in a `with`, or that contains itself, nor for an "
     "object held by an attribute of the model that is stored, shared or chosen between and "
     "assigned to afterwards."},
    {Refusal::AttributeType, "attribute-type",
     "{}: attribute {} of type {} can be neither a constant nor an input",
     "store what the method needs of it as tensors, numbers or strings",
     "An attribute holds a value that a stage file cannot store."},
    {Refusal::SharedAttribute, "shared-attribute",
     "{}: writes the value of attribute {}, which attribute {} shares",
     "give each attribute a list or tensor of its own before saving the model",
     "Two attributes share a list, dict or tensor, at least one of them inside a list, dict, tuple "
     "or object, and the method changes it. Stages store each attribute separately, so one "
     "attribute would not see what is written through the other."},
    {Refusal::MetaTensor, "meta-tensor",
     "attribute {}: a tensor on the meta device has no elements",
     "load the weights before saving the model",
     "The model was saved before its weights were loaded (torch.device(\"meta\"))."},
    {Refusal::ReservedName, "reserved-name",
     "attribute {}: a stage has a method named {}, so it cannot have an attribute of that name",
     "rename it in the model",
     "A module cannot have an attribute and a method of the same name. Stages keep the names of "
     "the model's attributes and have the methods forward and pipec_forward."},
    {Refusal::Awaitable, "awaitable", "{}: the value is computed only when it is first waited for",
     "call the function where its result is needed, instead of using torch.jit._awaitable",
     "torch.jit._awaitable defers a computation to a point that is known only at run time."},
    {Refusal::NoTextForm, "no-text-form", "{} has no text form", "read the model from its file",
     "Model text (pipe-opt, --dump-ir) can hold tensors of the common dtypes, numbers, strings, "
     "lists, tuples, dicts and None."},
    {Refusal::TypeOfModel, "type-of-model",
     "{}: type {} is defined in the model's file, which text does not contain",
     "read the model from its file",
     "Model text names a class or NamedTuple, which only the model's own file defines."},
    {Refusal::ResultWithoutForm, "result-without-form",
     "{}: the result holds {}: expected tensors, numbers, bools, strings and None in tuples, lists "
     "and dicts, got {}",
     "leave it out of the result, or return it as a string or a number; for a future, return the "
     "result of torch.jit.wait",
     "The method returns a device, a future, an object or a similar value, which cannot be written "
     "to an output file or sent to another rank."},
    {Refusal::ValuesDtype, "values-dtype",
     "{}: {} has dtype {}, which LibTorch does not read from a values file",
     "save it as x.to(torch.{}), and convert it in the model: x.to(torch.{})",
     "A values file (--inputs, --expect) holds a tensor of a dtype that torch.save writes in its "
     "own form: uint16, uint32, uint64, float8 and others. A model may compute with these dtypes, "
     "and pipe-run writes results of them."},
    {Refusal::ParametersOfOneMemory, "parameters-of-one-memory",
     "--train: {} and {} are different tensors of one memory, and at least one of them is trained",
     "compute one of them from the other in forward",
     "A parameter and another parameter, a buffer, or a tensor in a list, tuple, dict or object of "
     "a module are different tensors of one memory: a view, or the same elements twice. An update "
     "of one changes the other in PyTorch, but stages have memory of their own. A parameter with "
     "several names is one tensor and trains."},
    {Refusal::TrainedContainer, "trained-container",
     "--train: {} is {} with a trained tensor that is no parameter",
     "make it a parameter of a module and use that in forward, or turn its requires_grad off",
     "A trained tensor is in a list, tuple, dict or object and is no parameter of a module, so "
     "neither an optimizer nor a gradient has a name for it."},
    {Refusal::ParameterInContainer, "parameter-in-container",
     "--train: {} is {} with the parameter {} in it", "take it out of {}, and use {} in forward",
     "A parameter of a module is also in an object of a class, or in a list, tuple or dict that "
     "has a tensor of its own or an object in it, or into which the model writes. Other lists, "
     "tuples and dicts of parameters train, as those of LSTM do."},
    {Refusal::StateWithGradient, "state-with-gradient",
     "the model writes a value with a gradient into its state {}, from which the next micro-batch "
     "would walk back into this one",
     "write x.detach() into it",
     "A training computes the gradients of each micro-batch on its own. State that carries a graph "
     "from one to the next would need both at once; PyTorch refuses most such models itself, with "
     "\"backward through the graph a second time\"."},
    {Refusal::StateOfWeight, "state-of-weight",
     "the model writes into its state {} a view of its parameter {}, without detach(): PyTorch "
     "refuses to use it after the first update",
     "write x.detach() into it, or x.clone()",
     "A view of a trained weight that is made between torch.no_grad() and its end, such as w[0] or "
     "w.t(), and kept for the next micro-batch. When the optimizer has written the weight, PyTorch "
     "refuses the next use of the view (\"a view was created in no_grad mode and its base has been "
     "modified inplace\"). A view of a detached weight shows the new values, and a copy the old "
     "ones."},
    {Refusal::GradMode, "grad-mode", "--train: {} asks for {}",
     "set it to True, False or the result of torch.is_grad_enabled(), not in a branch; or use "
     "torch.no_grad() or detach()",
     "torch.set_grad_enabled is called with a value that only a run gives, or in one branch of "
     "several, so no stage knows the mode of the operators behind it."},
    {Refusal::HiddenTensors, "hidden-tensors",
     "--train: {}, in a part without gradients, reads a list or an optional tensor that the "
     "compiler cannot detach",
     "give the operator its tensors one by one, as in op([a, b]); or, if it writes nothing, move "
     "it out of torch.no_grad() and detach its results",
     "Between torch.no_grad() and its end, operators read tensors without their graph. The "
     "compiler detaches tensors, and the elements of a list that is written where it is read. "
     "Where a list was made elsewhere or may have grown, or where a tensor may be None, it "
     "detaches the results instead, unless the operator writes a tensor, or returns its arguments "
     "themselves or lists of their parts."},
    {Refusal::InnerGradient, "inner-gradient", "{}: the model computes gradients itself",
     "leave a penalty on gradients out of the model, write the derivative that it needs with "
     "operators, or train the model unsplit: pipe-run MODEL.pt --train",
     "forward calls torch.autograd.grad or backward(), as for a penalty on gradients. Such a call "
     "walks back through operators of all stages before it, and each stage has only the graph of "
     "its own; inference has none. pipe-run --train trains such a model unsplit, from its .pt."},
    {Refusal::GraphState, "graph-state",
     "--train: {} reads or changes what autograd keeps at a tensor",
     "leave it out of the model, and freeze weights before it is saved or with pipe-run --freeze "
     "NAME; or train the model unsplit: pipe-run MODEL.pt --train",
     "is_leaf, retain_grad(), retains_grad and .grad belong to the graph of the whole model, and "
     "requires_grad_() of a weight changes in the middle of a step what is trained. A stage has a "
     "graph of its own, which begins at its weights and at what it receives. pipe-run --train "
     "trains such a model unsplit, from its .pt, if the same weights require gradients after each "
     "forward as before it."},
    {Refusal::TooFewPlaces, "too-few-places",
     "{} stages requested; this model can be cut into at most {}: {}", "{}",
     "The number of stages is limited by the operators at top level that may be separated. Control "
     "flow that depends on data is one operator. These stay in one stage: a write and the values "
     "it may change, reads and writes of an attribute, and the producer and users of a value that "
     "cannot be sent between stages. The help asks for fewer stages where some cut is possible, "
     "and says what to change about the reasons: where a weight of the first layer is normalised "
     "in place behind the last one, move that write next to the first layer."},
    {Refusal::CutNotPossible, "cut-not-possible", "{} is not possible: {}",
     "the nearest place is before {}; --nearest cuts there",
     "A cut by --at, by a marker or by a program's predicate would separate operators that must "
     "stay in one stage. With --nearest such a cut moves, with a warning."},
};

} // namespace

static std::string filledIn(llvm::StringRef text, llvm::ArrayRef<std::string> details) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  for (const std::string &detail : details)
    arguments.push_back(detail);
  return fmt::vformat(text.str(), arguments);
}

llvm::ArrayRef<RefusalRow> refusals() { return kRefusals; }

llvm::Error refuse(Refusal refusal, llvm::ArrayRef<std::string> details) {
  const RefusalRow &row = kRefusals[static_cast<size_t>(refusal)];
  PIPEC_ASSERT(row.refusal == refusal, "the rows stand in the order of the enumeration");
  const size_t ofMessage = std::min(row.message.count("{}"), details.size());
  return makeError(ExitCode::Unsupported, filledIn(row.message, details.take_front(ofMessage)),
                   filledIn(row.help, details.drop_front(ofMessage)));
}

} // namespace pipec

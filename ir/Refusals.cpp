#include "ir/Refusals.h"

#include "ir/plan/Check.h"

#include <fmt/args.h>

namespace pipec {

namespace {

constexpr RefusalRow kRefusals[] = {
    {Refusal::MarkerInBlock, "marker-in-block",
     "pipe_split {}stands inside {}, control flow that depends on data and stays whole",
     "move the marker before or after the block",
     "A marker stands in a branch or loop that only the data decides. Such control flow runs as "
     "one "
     "operator of one stage."},
    {Refusal::MarkerArguments, "marker-arguments",
     "{}: pipe_split takes one tensor and returns it, or takes and returns nothing; got {} "
     "arguments",
     "write `x = pipe_split(x)` with `def pipe_split(x): return x`",
     "A function called pipe_split has another form than a marker's."},
    {Refusal::MarkerComputes, "marker-computes",
     "{}: pipe_split: expected a function that returns its one tensor argument, or takes and "
     "returns nothing, got one that does more",
     "give your function another name, or write `def pipe_split(x: torch.Tensor) -> torch.Tensor: "
     "return x`",
     "A function called pipe_split computes something: as a marker it would be dropped."},
    {Refusal::ModuleInBlock, "module-in-block",
     "module {} begins inside {}, control flow that depends on data and stays whole",
     "cut before or after that block",
     "--at names a module that is called in the middle of a branch or loop that only the data "
     "decides."},
    {Refusal::ClassUnknown, "class-unknown",
     "{}: call of {} on a value of type {} whose class is only known at run time",
     "call the submodules by name, in a branch each",
     "A module is chosen at run time, so that what the call computes is not known when the model "
     "is "
     "cut."},
    {Refusal::NoBody, "no-body", "{}: {} has no TorchScript body to inline",
     "write it as a custom operator (TORCH_LIBRARY) and load that with --load-library",
     "A method of a C++ class (torchbind) is called: nothing can be said about what it reads and "
     "writes. Operators that take such an object are welcome."},
    {Refusal::ModuleAsValue, "module-as-value", "{}: the model uses a module as a value",
     "call the module's methods directly instead of storing or returning it",
     "A module is stored in a list, returned, or chosen between."},
    {Refusal::ObjectAttribute, "object-attribute",
     "{}: reads or writes {} of an object of class {} that is more than its attributes{}",
     "use plain variables, tuples or a submodule in its place",
     "An object of a TorchScript class is returned, compared, sorted or used in a `with`, or holds "
     "itself; or an attribute of the model holds it, and it is stored, shared or chosen between "
     "and something is assigned to it after that. Objects of which only attributes and methods are "
     "used become these, and others tuples of their attributes."},
    {Refusal::AttributeType, "attribute-type",
     "{}: attribute {} of type {} can be neither a constant nor an input",
     "keep what the method needs of it as tensors, numbers or strings",
     "An attribute holds a value that no stage file can hold."},
    {Refusal::SharedAttribute, "shared-attribute",
     "{}: writes what attribute {} holds, and attribute {} holds the same",
     "give each attribute a list or tensor of its own before saving the model",
     "Two attributes were saved with one list, dict or tensor between them, at least one of them "
     "inside a list, dict, tuple or object, and the method changes it. Stages keep each attribute "
     "by itself, so that one would not see what is written under the name of the other."},
    {Refusal::MetaTensor, "meta-tensor",
     "attribute {}: a tensor on the meta device has no elements",
     "save the model after its weights were loaded",
     "The model was saved before its weights were there (torch.device(\"meta\"))."},
    {Refusal::ReservedName, "reserved-name",
     "attribute {}: a stage has a method of the name {}, so it can have no attribute of that name",
     "give it another name in the model",
     "A module cannot have an attribute and a method of one name. The stages keep the names of the "
     "model's attributes and have the methods forward and pipec_forward."},
    {Refusal::Awaitable, "awaitable", "{}: a value that is computed when it is first waited for",
     "call the function where its result is needed, in place of torch.jit._awaitable",
     "torch.jit._awaitable puts a computation off to a place that is only known at run time."},
    {Refusal::NoTextForm, "no-text-form", "{} has no text form", "read the model from its file",
     "Texts (pipe-opt, --dump-ir) hold tensors of the common dtypes, numbers, strings, lists, "
     "tuples, dicts and None."},
    {Refusal::TypeOfModel, "type-of-model", "{}: type {} is defined by a model, not by text",
     "read the model from its file",
     "A text names a class or NamedTuple; only a model's own file says what it is."},
    {Refusal::ResultWithoutForm, "result-without-form",
     "{}: the result holds {}: expected tensors, numbers, bools, strings and None in tuples, lists "
     "and dicts, got {}",
     "leave it out of the result, or return it as a string or a number, or what torch.jit.wait "
     "gives",
     "The method returns a device, a future, an object or the like, which neither a file of "
     "outputs nor another rank can be given."},
    {Refusal::TooFewPlaces, "too-few-places",
     "stages: {} wanted, but the model has only {} to cut: at most {}; {}",
     "ask for fewer stages, or change what keeps operators together",
     "A model has a limit of stages: its operators at top level, less those that must stay in one "
     "stage. Control flow that depends on data is one operator; a write stays with what it may "
     "change, reads and writes of an attribute stay together, and so do the maker and the users of "
     "a value that cannot travel."},
    {Refusal::CutNotPossible, "cut-not-possible", "{} is not possible: {}",
     "the nearest place is before {}; --nearest cuts there",
     "A cut by --at, by a marker or by a program's predicate would separate what must stay in one "
     "stage. With --nearest such a cut moves, with a warning."},
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

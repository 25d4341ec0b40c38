#include "tests/support/faults/PlantedFaults.h"

#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "ir/torchfile/TorchArchive.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "tests/support/faults/Faults.h"
#include "tests/support/faults/GraphEdits.h"
#include "tests/support/faults/TrainingFaults.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

namespace pipec {

namespace {

template <typename What> struct Fault {
  llvm::StringLiteral name;
  llvm::StringLiteral what;
  bool (*plant)(What);
};

/// In the stages' graphs, or in the model's after a pass.
constexpr Fault<faults::Graphs> kGraphFaults[] = {
    {"swapped-operands", "an operator gets its two operands the other way round",
     faults::swappedOperands},
    {"wrong-operator", "relu becomes sigmoid", faults::wrongOperator},
    {"wrong-overload", "an operator on two tensors becomes one on a tensor and a number",
     faults::wrongOverload},
    {"wrong-int-constant", "an int is one larger", faults::wrongIntConstant},
    {"wrong-float-constant", "a float differs in its last bit", faults::wrongFloatConstant},
    {"wrong-bool-constant", "a bool is the other one", faults::wrongBoolConstant},
    {"wrong-alpha", "add multiplies its second operand by 2", faults::wrongAlpha},
    {"dropped-node", "an activation function is left out", faults::droppedNode},
    {"extra-node", "a result is negated", faults::extraNode},
    {"duplicated-random", "dropout is applied twice", faults::duplicatedRandom},
    {"reordered-nodes", "two operators whose order counts change places", faults::reorderedNodes},
    {"lost-write", "an in-place operator is left out", faults::lostWrite},
    {"write-made-pure", "an in-place operator no longer writes", faults::writeMadePure},
    {"dropped-raise", "a raise is left out", faults::droppedRaise},
    {"dropped-branch", "an if always takes its first branch", faults::droppedBranch},
    {"lost-iterations", "a loop runs once", faults::lostIterations},
    {"wrong-value", "an operator reads another tensor", faults::wrongValue},
    {"wrong-number", "an operator reads another int", faults::wrongNumber},
    {"swapped-elements", "two elements of a list, tuple or dict change places",
     faults::swappedElements},
};

/// After a pass only.
constexpr Fault<Model &> kModelFaults[] = {
    {"wrong-module", "a call is of another module of the same type", faults::wrongModule},
    {"lost-boundary", "two stages are one", faults::lostBoundary},
    {"torn-write", "a boundary parts a write from who sees it", faults::tornWrite},
    {"swapped-results", "two results of the model change places", faults::swappedResults},
    {"kept-state", "an assigned attribute keeps its old value", faults::keptState},
    {"swapped-attributes", "two attributes of one shape hold each other's elements",
     faults::swappedAttributes},
};

/// In the stages.
constexpr Fault<StagedModel &> kStageFaults[] = {
    {"lost-gradient", "a result is detached, which no forward shows", faults::lostGradient},
    {"doubled-gradient", "a result has twice its gradient, which no forward shows",
     faults::doubledGradient},
    {"swapped-ports", "a stage takes two of its inputs for one another", faults::swappedPorts},
    {"swapped-outputs", "a stage returns two of its outputs for one another",
     faults::swappedOutputs},
    {"wrong-channel", "a stage reads another channel of equal type", faults::wrongChannel},
    {"wrong-user-input", "a stage reads another argument of the model", faults::wrongUserInput},
    {"swapped-leaves", "two results of the model change places", faults::swappedLeaves},
    {"lost-state", "an assigned attribute keeps its old value", faults::lostState},
    {"dropped-state", "an assignment to an attribute is left out", faults::droppedState},
    {"wrong-state", "a value is assigned to another attribute", faults::wrongState},
    {"wrong-weight", "one element of a weight differs", faults::wrongWeight},
    {"wrong-unread-weight", "one element of a weight that no operator reads differs",
     faults::wrongUnreadWeight},
    {"wrong-constant-tensor", "one element of a tensor constant differs",
     faults::wrongConstantTensor},
    {"transposed-weight", "a weight has other strides", faults::transposedWeight},
    {"wrong-dtype", "a weight has another dtype", faults::wrongDtype},
    {"wrong-requires-grad", "a weight no longer requires grad", faults::wrongRequiresGrad},
    {"swapped-weights", "two weights of one shape hold each other's elements",
     faults::swappedWeights},
    {"swapped-objects", "two objects of one type hold each other's content",
     faults::swappedObjects},
    {"wrong-bias", "an operator reads another weight of the same shape", faults::wrongBias},
    {"lost-weight", "a weight that no operator reads is in no stage", faults::lostWeight},
    {"lost-name", "a tied weight has lost its other names", faults::lostName},
    {"wrong-kind", "a parameter is a buffer", faults::wrongKind},
    {"lost-overlap", "two tensors that share memory no longer do", faults::lostOverlap},
    {"wrong-tie", "a copy of a tied weight differs", faults::wrongTie},
    {"wrong-weight-channel", "a stage is sent another weight of the same shape",
     faults::wrongWeightChannel},
    {"wrong-random-key", "a random operator has the number of another", faults::wrongRandomKey},
    {"lost-written-mark", "the plan does not say that a buffer is written",
     faults::lostWrittenMark},
    {"lost-raise-mark", "the plan does not say that a stage may raise", faults::lostRaiseMark},
    {"wrong-output-tree", "two keys of a dict result change places", faults::wrongOutputTree},
    {"wrong-merge", "micro-batches are joined along another dimension", faults::wrongMerge},
    {"wrong-batch-dim", "an argument is cut along another dimension", faults::wrongBatchDim},
    {"wrong-default", "an argument has another default value", faults::wrongDefault},
    {"unrecorded-recompute", "an operator is repeated and nothing says so",
     faults::unrecordedRecompute},
    {"claimed-recompute", "an operator is said to be repeated, and is not",
     faults::claimedRecompute},
    {"false-fact", "a fold relied on a rank that an argument does not have", faults::falseFact},
    {"lossy-plan", "the plan holds what plan.json has no place for", faults::lossyPlan},
};

/// pipec_forward has one argument per use of a trainable weight: a fault must not be found only
/// because these do not add up.
void countUses(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
      StageAttribute &entry = stage.plan.attributes[i];
      size_t uses = faults::usesOf(stage, faults::inputOf(stage, i));
      bool perUse = entry.kind == AttributeKind::Parameter && entry.requiresGrad;
      entry.uses = perUse ? uses : std::min<size_t>(uses, 1);
    }
}

template <typename What>
const Fault<What> *findFault(llvm::ArrayRef<Fault<What>> table, llvm::StringRef name) {
  const auto *found =
      llvm::find_if(table, [&](const Fault<What> &row) { return row.name == name; });
  return found == table.end() ? nullptr : found;
}

template <typename What>
void addNames(llvm::ArrayRef<Fault<What>> table, std::vector<llvm::StringRef> &names) {
  for (const Fault<What> &row : table)
    names.push_back(row.name);
}

/// On the disk, after all was written and digested.
constexpr llvm::StringLiteral kFlippedBit = "flipped-bit-on-disk";

struct Record {
  std::string file;
  size_t offset = 0, size = 0;
};

/// The most bytes that any stage file has in one record of its weights.
llvm::Expected<Record> largestRecord(const std::string &directory) {
  Record largest;
  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".pt")
      continue;
    auto archive = TorchArchive::open(entry.path().string());
    if (!archive)
      return archive.takeError();
    auto &reader = (*archive)->reader();
    for (const std::string &name : reader.getAllRecords())
      if (startsWith(name, "data/") && reader.getRecordSize(name) > largest.size)
        largest = {entry.path().string(), reader.getRecordOffset(name), reader.getRecordSize(name)};
  }
  return largest;
}

/// In the middle of it.
llvm::Expected<bool> flipBit(const std::string &directory) {
  llvm::Expected<Record> record = largestRecord(directory);
  if (!record || record->size == 0)
    return record ? llvm::Expected<bool>(false) : record.takeError();
  const auto at = static_cast<std::streamoff>(record->offset + record->size / 2);
  std::fstream file(record->file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  if (!file)
    return makeError(ExitCode::IO, record->file + ": cannot write");
  return true;
}

/// Not in the table: what no proof can catch.
void crash(llvm::StringRef name) {
  if (name == "crash")
    std::raise(SIGSEGV);
  if (name == "bus")
    std::raise(SIGBUS);
  if (name == "crash-then-hang") {
    static constexpr char kMark[] = "crashed";
    if (::access(kMark, F_OK) == 0)
      ::unlink(kMark), ::sleep(200);
    std::fclose(std::fopen(kMark, "w"));
    std::raise(SIGSEGV);
  }
  if (name == "assert")
    PIPEC_ASSERT(name.empty(), "planted");
  if (name == "deep-recursion") {
    std::function<size_t(size_t)> deeper = [&](size_t depth) {
      volatile char used[4096] = {};
      return deeper(depth + 1) + used[depth % sizeof used];
    };
    deeper(0);
  }
}

llvm::Error noSuchFault(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> names,
                        llvm::ArrayRef<faults::TrainingFault> ofTrainings = {}) {
  crash(name);
  std::string help = "one of " + llvm::join(names, ", ");
  for (const faults::TrainingFault &fault : ofTrainings)
    help += (&fault == ofTrainings.begin() ? "; with --train: " : ", ") + fault.name.str();
  return makeError(ExitCode::Usage, "no planted fault is called " + name.str(), help);
}

} // namespace

llvm::Expected<bool> plantFault(llvm::StringRef name, StagedModel &model) {
  const auto *ofStages = findFault<StagedModel &>(kStageFaults, name);
  const auto *ofGraphs = findFault<faults::Graphs>(kGraphFaults, name);
  const faults::TrainingFault *ofTrainings = faults::findTrainingFault(name);
  if (!ofStages && !ofGraphs && !ofTrainings) {
    std::vector<llvm::StringRef> names;
    addNames<faults::Graphs>(kGraphFaults, names);
    addNames<StagedModel &>(kStageFaults, names);
    names.push_back(kFlippedBit);
    return noSuchFault(name, names, faults::trainingFaults());
  }
  const bool planted = ofTrainings ? ofTrainings->ofStages(model)
                       : ofStages  ? ofStages->plant(model)
                                   : ofGraphs->plant(faults::graphsOf(model));
  countUses(model);
  return planted;
}

llvm::Expected<bool> plantFault(llvm::StringRef name, Model &model) {
  const auto *ofModels = findFault<Model &>(kModelFaults, name);
  const auto *ofGraphs = findFault<faults::Graphs>(kGraphFaults, name);
  if (!ofModels && !ofGraphs) {
    std::vector<llvm::StringRef> names;
    addNames<faults::Graphs>(kGraphFaults, names);
    addNames<Model &>(kModelFaults, names);
    return noSuchFault(name, names);
  }
  return ofModels ? ofModels->plant(model) : ofGraphs->plant(model.graph.get());
}

bool isFaultOfFiles(llvm::StringRef name) { return name == kFlippedBit; }

llvm::Expected<bool> plantFault(llvm::StringRef name, const std::string &directory) {
  PIPEC_ASSERT(isFaultOfFiles(name), "other faults are the model's");
  return flipBit(directory);
}

} // namespace pipec

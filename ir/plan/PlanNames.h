// Names of the plan's enumerations, as plan.json and reports write them.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

llvm::StringRef toString(MergeRule::Kind kind);  // concat same list mean sum join
llvm::StringRef toString(OutputTree::Kind kind); // leaf tuple list dict
llvm::StringRef toString(StageInput::Kind kind); // input channel
llvm::StringRef toString(Channel::Kind kind);    // activation weight
llvm::StringRef toString(Tie::Mode mode);        // transmit replicate
llvm::StringRef toString(Mode mode);             // infer train
llvm::StringRef toString(AttributeKind kind);    // parameter buffer constant value object

/// Schedules that a plan can name: those that every runtime can generate for any number of
/// micro-batches, and "table" for one that exists only in schedule.csv.
llvm::ArrayRef<llvm::StringRef> scheduleNames();

/// Errors: BadArtifact listing the names that exist.
llvm::Expected<MergeRule::Kind> parseMergeKind(llvm::StringRef text);
llvm::Expected<Channel::Kind> parseChannelKind(llvm::StringRef text);
llvm::Expected<Tie::Mode> parseTieMode(llvm::StringRef text);
llvm::Expected<Mode> parseMode(llvm::StringRef text);
llvm::Expected<AttributeKind> parseAttributeKind(llvm::StringRef text);

/// "8", "2*B+1", "?"
std::string toString(const Dim &dim);
llvm::Expected<Dim> parseDim(llvm::StringRef text);

/// "concat:1", "same", "list", "mean", "sum", "join", "join:1" (of lists one level down).
std::string toString(const MergeRule &rule);
/// Returns nullopt for other texts.
std::optional<MergeRule> parseMergeRule(llvm::StringRef text);

/// Whether the argument, or a part of it, is cut into micro-batches.
bool isCut(const InputSpec &input);
/// "0", "none", "mask=none, x=0": the batch dimensions of an argument.
std::string batchDimText(const InputSpec &input);
/// Whether any argument is cut into micro-batches.
bool isCut(const Signature &signature);
/// True if an argument that is cut along its batch has sizes that differ from run to run.
bool hasVaryingSizes(const Signature &signature);
/// Bytes of the parameters that the stages hold, together.
int64_t parameterBytes(const Plan &plan);
/// The lowest minor version of the format that can hold such a plan and all that 1.3 can.
int64_t minorOf(const Plan &plan);
/// The features that a reader must know to run such a plan. "varying-sizes": sizes of results do
/// not show how they depend on the batch. "merge-rules": results are merged by rules that do not
/// follow from their sizes. "schedule-table": the schedule cannot be generated. "moved-operators":
/// the stages have the source's operators in another order. "parts-of-arguments": parts of an
/// argument have batch dimensions of their own. "absent-arguments": the stages rely on an argument
/// being None. "described-weights": channels of weights have dtype and shape. "training": the plan
/// says how the stages are trained.
std::vector<std::string> featuresOf(const Plan &plan);

/// Bytes of one element, by PyTorch's name of the dtype; nothing for an unknown name.
std::optional<int64_t> bytesOfDtype(llvm::StringRef dtype);
/// Whether a type, as TorchScript writes it, can hold no tensor: numbers, strings, containers of
/// these.
bool holdsNoTensor(llvm::StringRef type);
/// True for floating and complex dtypes. Tensors of other dtypes have no gradient.
bool isDifferentiable(llvm::StringRef dtype);

} // namespace pipec

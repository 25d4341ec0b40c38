// A plan for people and for programs: the tables and the JSON that pipe-compile and pipe-inspect
// share.
#pragma once

#include "ir/batch/PartSizes.h"
#include "ir/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/report/Table.h"

namespace pipec {

/// "encoder.0 .. encoder.5", or "-" for a stage without operators of a module.
std::string modulesOf(const std::string &first, const std::string &last);
std::string modulesOf(const StagePlan &stage);
/// "float32[B,8]", or "?" if nothing is known.
std::string shapeOf(const TensorSpec &spec);
/// "cut along dimension 0", "whole", or each part of a tree with its own.
std::string cutText(const InputSpec &input);
/// "concat along dimension 0"; "one micro-batch" where nothing is cut.
std::string mergeText(const Signature &signature, const OutputLeaf &leaf);
/// "sizes: dimension 1 of ids, mask may differ from run to run"; empty if no size may. A plan does
/// not know the `parts` of arguments that are trees.
std::string sizesSentence(const Signature &signature, llvm::ArrayRef<PartSizes> parts = {});
/// The bytes of a channel for one micro-batch, or of a weight once. Nothing: not known.
std::optional<int64_t> bytesOf(const Plan &plan, const Channel &channel);
/// "weight encoder.embedding", "skip", or empty.
std::string kindOf(const Plan &plan, const Channel &channel);

/// The parts of a plan that reports and pages show; a table is empty if the plan has no such part.
Table stagesTable(const Plan &plan);
Table channelsTable(const Plan &plan);
Table tiesTable(const Plan &plan);
Table inputsTable(const Signature &signature);
Table outputsTable(const Signature &signature);

/// Tables with a heading; an empty list prints nothing.
void printStages(llvm::raw_ostream &out, const Plan &plan);
void printChannels(llvm::raw_ostream &out, const Plan &plan);
void printTies(llvm::raw_ostream &out, const Plan &plan);

/// The values of "stages", "channels", "ties" and "batch" in the documents of --json.
llvm::json::Array stagesJson(const Plan &plan);
llvm::json::Array channelsJson(const Plan &plan);
llvm::json::Array tiesJson(const Plan &plan);
llvm::json::Object batchJson(const Plan &plan);

} // namespace pipec

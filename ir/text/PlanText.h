// The plan's parts as lines of our text form: stages, ports, channels, ties. Each entity has one
// print and one parse function. A printed line starts with the entity's keyword. A parse function
// expects that the keyword is already consumed.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/text/SignatureText.h"

namespace pipec {

// stage 0 file=stage-0.pt first=enc last=enc.fc nodes=5 rank=0 ... {
std::string stageText(const StagePlan &stage, size_t index);
StagePlan parseStage(TextLine &line, size_t expectedIndex);
// input x : Tensor user=0  |  input h : Tensor channel=2
std::string stageInputText(const StageInput &input);
StageInput parseStageInput(TextLine &line);
// output h : Tensor channels=[0,1] leaves=[2] state=0
std::string stageOutputText(const StageOutput &output);
StageOutput parseStageOutput(TextLine &line);
// uses enc.weight parameter uses=2 bytes=512 requires_grad written channel=3 also=[dec.weight]
std::string stageAttributeText(const StageAttribute &attribute);
StageAttribute parseStageAttribute(TextLine &line);
// effects random=[1,2] writes=[a,b] prints raises; empty when there are none
std::string effectsText(const StageEffects &effects);
StageEffects parseEffects(TextLine &line);

// channel c0 0:1 -> 1:0, 2:0 : Tensor tensor=... skip
std::string channelText(const Channel &channel);
Channel parseChannel(TextLine &line);
// tie [a,b] replicate owner=0 stages=[0,1]
std::string tieText(const Tie &tie);
Tie parseTie(TextLine &line);

} // namespace pipec

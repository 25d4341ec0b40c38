// The functions behind the rows of Generators.cpp. A file of this folder defines one of them or a
// family of similar ones.
#pragma once

#include "ir/schedule/Generators.h"

namespace pipec {

llvm::Expected<Schedule> makeForwardOnly(const ScheduleRequest &request);
llvm::Expected<Schedule> makeGPipe(const ScheduleRequest &request);
llvm::Expected<Schedule> makeOneFOneB(const ScheduleRequest &request);
llvm::Expected<Schedule> makeEagerOneFOneB(const ScheduleRequest &request);
llvm::Expected<Schedule> makeInterleaved(const ScheduleRequest &request);
llvm::Expected<Schedule> makeInterleavedZeroBubble(const ScheduleRequest &request);
llvm::Expected<Schedule> makeLoopedBfs(const ScheduleRequest &request);
llvm::Expected<Schedule> makeZeroBubbleH1(const ScheduleRequest &request);
llvm::Expected<Schedule> makeZeroBubbleH2(const ScheduleRequest &request);
llvm::Expected<Schedule> makeZeroBubbleV(const ScheduleRequest &request);
llvm::Expected<Schedule> makeVHalf(const ScheduleRequest &request);
llvm::Expected<Schedule> makeVMin(const ScheduleRequest &request);
llvm::Expected<Schedule> makeDualPipeV(const ScheduleRequest &request);
llvm::Expected<Schedule> makeAutoZeroBubble(const ScheduleRequest &request);
llvm::Expected<Schedule> makeAutoZeroBubbleV(const ScheduleRequest &request);

} // namespace pipec

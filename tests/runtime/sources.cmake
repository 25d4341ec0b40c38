list(APPEND PIPEC_RUNTIME_SOURCES
  runtime/PipelineTest.cpp
  runtime/PlanEdits.cpp
  runtime/PlanEditsTest.cpp
  runtime/RandomKeyTest.cpp
  runtime/RankProgramTest.cpp
  runtime/RankThreadsTest.cpp
  runtime/RepeatedStepsTest.cpp
  runtime/ReferenceTest.cpp
  runtime/SmallPipeline.cpp
  runtime/SmallTraining.cpp
  support/TestModels.cpp
  runtime/CudaTest.cpp
  runtime/HostWaits.cpp
  runtime/TransportConformance.cpp
  runtime/FailedCallsTest.cpp
  runtime/TrainingSettingsTest.cpp
  runtime/CollectivesTest.cpp
  runtime/DynamicOrderTest.cpp
  runtime/SplitCheckTest.cpp
  runtime/LiveBytesTest.cpp
  runtime/WeightTransfersTest.cpp
  runtime/OptimizerStateTest.cpp
  runtime/UserOptimizerTest.cpp
  runtime/PipelineUseTest.cpp
  runtime/StreamOrderTest.cpp
  support/streams/StreamDevice.cpp
  support/streams/StreamMonitor.cpp
  runtime/ReplicasTest.cpp
  runtime/OwnNewsTest.cpp
  support/CountedNews.cpp
  runtime/NotedMemory.cpp
  runtime/LayeredTraining.cpp
  runtime/RandomTablesTest.cpp
  runtime/StableAddressesTest.cpp
  runtime/RecomputeOrderTest.cpp)
# Its operators new and delete are no other file's to inline, so it is compiled alone.
set_source_files_properties(support/CountedNews.cpp PROPERTIES COMPILE_DEFINITIONS PIPEC_COUNTS_NEWS SKIP_PRECOMPILE_HEADERS ON)

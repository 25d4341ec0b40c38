list(APPEND PIPEC_RUNTIME_SOURCES
  runtime/PipelineTest.cpp
  runtime/PlanEdits.cpp
  runtime/PlanEditsTest.cpp
  runtime/RandomKeyTest.cpp
  runtime/RankProgramTest.cpp
  runtime/RankThreadsTest.cpp
  runtime/ReferenceTest.cpp
  runtime/SmallPipeline.cpp
  support/TestModels.cpp
  runtime/CudaTest.cpp
  runtime/TransportConformance.cpp
  runtime/FailedCallsTest.cpp
  runtime/TrainingSettingsTest.cpp
  runtime/CollectivesTest.cpp)

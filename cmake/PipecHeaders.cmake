# The public headers as a user includes them: <pipec/Compiler.h>. They stand in the folders of the source tree, under names that are too
# general for the include path of a user; BUILD/include has them side by side in pipec/, each naming the others that way. The examples of
# the documentation see this folder alone, and `cmake --install` copies it.
set(PIPEC_PUBLIC_HEADERS compiler/Compiler.h compiler/Compiled.h compiler/CompileOptions.h compiler/CompileReport.h compiler/Progress.h runtime/Checkpointing.h runtime/ParameterOptimizer.h runtime/Pipeline.h runtime/RunTrace.h runtime/TrainingOptions.h ir/values/ValueTree.h ir/batch/PartSizes.h ir/batch/ResultCheck.h
    ir/support/Failure.h passes/CutSource.h passes/PassTimes.h ir/artifact/Finding.h ir/plan/Obligation.h ir/plan/Plan.h compiler/planner/RecomputeWish.h
    ir/schedule/ForwardOnly.h ir/schedule/Program.h ir/schedule/Schedule.h ir/schedule/Timing.h)
set(PIPEC_INCLUDE ${PROJECT_BINARY_DIR}/include)
foreach(header IN LISTS PIPEC_PUBLIC_HEADERS)
  cmake_path(GET header FILENAME name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(REGEX REPLACE "#include \"(compiler|passes|runtime|ir)(/[a-z]+)*/([A-Za-z]+)\\.h\"" "#include <pipec/\\3.h>" text "${text}")
  file(CONFIGURE OUTPUT ${PIPEC_INCLUDE}/pipec/${name} CONTENT "${text}" @ONLY)
  list(APPEND made ${PIPEC_INCLUDE}/pipec/${name})
endforeach()
file(GLOB old ${PIPEC_INCLUDE}/pipec/*.h) # of an earlier state of the tree
list(REMOVE_ITEM old ${made})
if(old)
  file(REMOVE ${old})
endif()

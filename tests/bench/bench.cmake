# Benchmarks: built by `ninja bench`, run by hand (docs/benchmarks.md).
foreach(name bench-compile bench-weights)
  add_executable(${name} EXCLUDE_FROM_ALL bench/${name}.cpp bench/BenchModels.cpp support/TestModels.cpp
    ${PROJECT_SOURCE_DIR}/tools/cli/FreedMemory.cpp)
  pipec_share_headers(${name})
  target_link_libraries(${name} PRIVATE pipec_compiler sdk_malloc)
endforeach()
set(sources_of_bench-memory runtime/NotedMemory.cpp)
foreach(name bench-actions bench-memory bench-sleep)
  add_executable(${name} EXCLUDE_FROM_ALL bench/${name}.cpp support/TestModels.cpp ${sources_of_${name}})
  pipec_share_headers(${name})
  target_link_libraries(${name} PRIVATE pipec_compiler pipec_runtime)
endforeach()
add_custom_target(bench DEPENDS bench-actions bench-memory bench-sleep bench-compile bench-weights pipe-compile)
# Without LibTorch: cheap enough to be built by default.
pipec_tool(bench-schedules SOURCES bench/bench-schedules.cpp DEPENDS pipec_schedule)
pipec_tool(bench-programs SOURCES bench/bench-programs.cpp support/BoundedExecutor.cpp DEPENDS pipec_planner pipec_schedule)
pipec_tool(bench-piper SOURCES bench/bench-piper.cpp support/piper/ReadPiper.cpp DEPENDS pipec_planner_hybrid)

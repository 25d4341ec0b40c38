# Artifacts as regression tests. This file stands alone: include() it from the source tree or from where it was installed.
#
#   pipec_add_artifact_test(NAME encoder-numbers ARTIFACT encoder.pipe CASE encoder.case)
#   pipec_add_artifact_test(NAME encoder-source  ARTIFACT encoder.pipe AGAINST encoder.pt)
#   pipec_add_artifact_test(NAME encoder-changes ARTIFACT encoder.pipe AGAINST released/encoder.pipe)
#
# makes one CTest entry that runs pipe-check: the artifact is whole and is its source; with CASE it computes what
# `pipe-compile --record-case` recorded; with AGAINST a TorchScript file it is that model, and with AGAINST an older artifact nothing
# changed. LOAD_LIBRARY names libraries with custom operators. Relative paths are relative to the current source directory; what a
# target makes may be named by its path in the build directory.
#
# pipe-check is the target pipec::pipe-check or pipe-check, else the program in the variable PIPEC_CHECK, else the one found beside
# this file's package or on the PATH.
include_guard()

function(pipec_find_check out)
  foreach(target pipec::pipe-check pipe-check)
    if(TARGET ${target})
      set(${out} $<TARGET_FILE:${target}> PARENT_SCOPE)
      return()
    endif()
  endforeach()
  find_program(PIPEC_CHECK pipe-check HINTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin DOC "the command that checks artifacts")
  if(NOT PIPEC_CHECK)
    message(FATAL_ERROR "pipec_add_artifact_test: no pipe-check: set PIPEC_CHECK to the program")
  endif()
  set(${out} ${PIPEC_CHECK} PARENT_SCOPE)
endfunction()

function(pipec_add_artifact_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME;ARTIFACT;CASE;AGAINST" "LOAD_LIBRARY")
  if(ARG_UNPARSED_ARGUMENTS OR ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "pipec_add_artifact_test: not understood: ${ARG_UNPARSED_ARGUMENTS} ${ARG_KEYWORDS_MISSING_VALUES}")
  endif()
  foreach(needed NAME ARTIFACT)
    if(NOT ARG_${needed})
      message(FATAL_ERROR "pipec_add_artifact_test: ${needed} is missing")
    endif()
  endforeach()
  pipec_find_check(check)
  cmake_path(ABSOLUTE_PATH ARG_ARTIFACT BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set(command ${check} ${ARG_ARTIFACT})
  foreach(option CASE AGAINST)
    if(ARG_${option})
      cmake_path(ABSOLUTE_PATH ARG_${option} BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      string(TOLOWER --${option} name)
      list(APPEND command ${name} ${ARG_${option}})
    endif()
  endforeach()
  foreach(library IN LISTS ARG_LOAD_LIBRARY)
    list(APPEND command --load-library ${library})
  endforeach()
  add_test(NAME ${ARG_NAME} COMMAND ${command})
endfunction()

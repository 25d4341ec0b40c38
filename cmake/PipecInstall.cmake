# cmake --install BUILD --prefix PREFIX: commands, libraries, headers, the CMake package, manual pages, completion, documents.
# It needs the target `installed` to be built; what is installed below and built belongs there, and the test install looks.
# Nothing that is installed names the prefix, so the tree may be moved as a whole. LibTorch is not copied: PREFIX/lib/pipec/torch is a
# link to it, and everything finds it through that link. docs/install.md is the manual.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(PIPEC_INSTALL_TORCH "" CACHE PATH "where the installed link lib/pipec/torch points; default: the LibTorch of the build")
set(torch ${PIPEC_INSTALL_TORCH})
if(NOT torch)
  file(REAL_PATH ${PIPEC_TORCH} torch) # .venv is a link in the source tree, which may go away
endif()
set(staging ${PROJECT_BINARY_DIR}/install)
file(MAKE_DIRECTORY ${staging})
file(CREATE_LINK ${torch} ${staging}/torch SYMBOLIC)
install(FILES ${staging}/torch DESTINATION ${CMAKE_INSTALL_LIBDIR}/pipec)

# --- Commands and libraries ----------------------------------------------------------------------------------------------------
set(commands pipe-compile pipe-run pipe-check pipe-merge pipe-inspect pipe-schedule pipe-opt)
set(libraries pipec_support pipec_costs pipec_plan pipec_schedule pipec_ir pipec_artifact pipec_checkpoint pipec_autograd pipec_passes pipec_planner pipec_compiler pipec_runtime)
file(RELATIVE_PATH libFromBin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(${commands} PROPERTIES INSTALL_RPATH "$ORIGIN/${libFromBin}/pipec/torch/lib")
set_target_properties(pipec_ops PROPERTIES INSTALL_RPATH "$ORIGIN/pipec/torch/lib")
foreach(library IN LISTS libraries)
  string(REPLACE "pipec_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name}) # pipec::compiler, pipec::runtime
endforeach()
add_custom_target(installed DEPENDS ${commands} ${libraries} pipec_ops pipec_stand_in) # all that is built of it, and no tests
install(TARGETS ${commands} ${libraries} EXPORT pipecTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS pipec_ops) # for torch.ops.load_library; nothing links it
install(TARGETS pipec_stand_in LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/pipec) # for --load-library

# --- Public headers: the two faces and what they include ------------------------------------------------------------------------
install(DIRECTORY ${PIPEC_INCLUDE}/pipec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# --- find_package(pipec) ---------------------------------------------------------------------------------------------------------
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/pipec)
install(EXPORT pipecTargets NAMESPACE pipec:: DESTINATION ${package})
set(torchLink ${CMAKE_INSTALL_LIBDIR}/pipec/torch)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pipecConfig.cmake.in ${staging}/pipecConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS torchLink)
write_basic_package_version_file(${staging}/pipecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${staging}/pipecConfig.cmake ${staging}/pipecConfigVersion.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/cmake/PipecArtifactTest.cmake DESTINATION ${package} OPTIONAL)

# --- Manual pages and completion, written by the commands themselves ------------------------------------------------------------
foreach(command IN LISTS commands)
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:${command}>\" --write-pages \"${staging}/pages\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${staging}/pages/man/${command}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${staging}/pages/bash/${command} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${staging}/pages/zsh/_${command} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${staging}/pages/fish/${command}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()

# --- Documents: links between them stay good --------------------------------------------------------------------------------------
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

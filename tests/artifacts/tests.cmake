# Each kept artifact as a user keeps one: a recorded case, checked by CTest.
include(${PROJECT_SOURCE_DIR}/cmake/PipecArtifactTest.cmake)
foreach(kept v1-mlp v1-tied v1.1-residual v1.2-residual)
  set(folder ${CMAKE_CURRENT_LIST_DIR}/${kept})
  pipec_add_artifact_test(NAME artifact-${kept} ARTIFACT ${folder}/model.pipe CASE ${folder})
  set_tests_properties(artifact-${kept} PROPERTIES ENVIRONMENT "${PIPEC_TEST_ENVIRONMENT}")
endforeach()

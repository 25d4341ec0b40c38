# What cmake --install makes, and what the shells and man make of the pages. The libraries are not compiled again.
pipec_e2e_test(install e2e/install.py ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER} "sanitize=${PIPEC_SANITIZE}")
pipec_e2e_test(pages e2e/pages.py)

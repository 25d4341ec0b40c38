# Faults on purpose, and random models. PIPEC_RANDOM_GRAPHS: how many; 100 take a few minutes on two cores.
set(PIPEC_RANDOM_GRAPHS 100 CACHE STRING "number of random models that the test random-graphs compiles")
pipec_e2e_test(planted-faults e2e/planted_faults.py)
pipec_e2e_test(faulty-passes e2e/faulty_passes.py)
pipec_e2e_test(random-graphs e2e/random_graphs.py --count ${PIPEC_RANDOM_GRAPHS})
# The same with gradients; 1,000: e2e/random_trainings.py --count 1000.
pipec_e2e_test(random-trainings e2e/random_trainings.py --count 20)
if(PIPEC_PLANTED_FAULTS)
  pipec_e2e_test(random-trainings-streams e2e/random_trainings.py --first 240 --count 20 --device test:any)
endif()
# Random tables, possible ones and damaged ones.
pipec_e2e_test(random-tables e2e/random_tables.py)

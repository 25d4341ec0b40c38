# Whole ways: compile, run, compare. One entry per model where a model takes long, so that they run beside each other.
foreach(model mlp resnet50 unet gpt2 bert t5 lstm)
  pipec_e2e_test(e2e-equality-${model} e2e/equality.py ${model})
endforeach()
pipec_e2e_test(e2e-python-stages e2e/python_stages.py mlp mlp_markers resnet50 unet gpt2 bert t5 lstm)
foreach(name batches relations markers peer_cases cuts facts once_broken containers state weights texts signatures libraries messages refused_where reproducers bad_input interrupt damage reproducible no_python kept_artifacts merge against cases schedules planner training planted_gradients pass_gradients training_plans grad_modes inspect_page traces tutorial first_training lengths stock_modules file_kinds foreign_text model_prints progress pass_times training_mode steady_memory bench_scripts gpu_scripts)
  string(REPLACE "_" "-" entry ${name})
  pipec_e2e_test(e2e-${entry} e2e/${name}.py)
endforeach()
# Real architectures, those that are made without other libraries; all of them: e2e/zoo.py --all.
pipec_e2e_test(e2e-zoo e2e/zoo.py)
# The same, trained; all of them: e2e/training_zoo.py --all. Both make the models they lack.
pipec_e2e_test(e2e-training-zoo e2e/training_zoo.py)
set_tests_properties(e2e-zoo e2e-training-zoo PROPERTIES RESOURCE_LOCK zoo)
# Trainings that run, and every schedule against the unsplit model; all combinations: e2e/train_grid.py --all.
pipec_e2e_test(e2e-train-runs e2e/train_runs.py)
pipec_e2e_test(e2e-train-losses e2e/train_losses.py)
pipec_e2e_test(e2e-replicas e2e/replicas.py)
pipec_e2e_test(e2e-evaluation e2e/evaluation.py)
pipec_e2e_test(e2e-checkpoints e2e/checkpoints.py)
pipec_e2e_test(e2e-train-precision e2e/train_precision.py)
pipec_e2e_test(e2e-train-norms e2e/train_norms.py)
pipec_e2e_test(e2e-train-grid e2e/train_grid.py)
if(PIPEC_PLANTED_FAULTS) # these builds have devices whose streams only fences put into an order
  pipec_e2e_test(e2e-train-grid-streams e2e/train_grid.py --device test:any)
endif()
# How batches, micro-batches, memory and devices that do not fit are refused; nested values in C++.
pipec_e2e_test(e2e-first-calls e2e/first_calls.py)
# Micro-batches whose samples have other lengths, under every schedule.
pipec_e2e_test(e2e-micro-batch-shapes e2e/micro_batch_shapes.py)
# Complex values that are conjugated when they are read.
pipec_e2e_test(e2e-conjugates e2e/conjugates.py)
# Tables of programs, run by PyTorch.
pipec_e2e_test(e2e-torch-comms e2e/torch_comms.py)
# Parameters that a model reads in lists, tuples and dicts.
pipec_e2e_test(e2e-trained-containers e2e/trained_containers.py)
pipec_e2e_test(e2e-repeated-uses e2e/repeated_uses.py)

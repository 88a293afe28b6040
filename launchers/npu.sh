# shellcheck shell=bash
# What the launchers share on npu (DESIGN 6.3): CANN, the stack's environment, variables, documents.
# Sourced after common.sh. Which NPUs, ports and nodes a run uses comes in by the environment.
: "${launchers:?}" # from common.sh

npu_stop() { # sentence
  printf 'lmsv: error: %s\n' "$1" >&2
  exit 2
}

# Called before prepare: NPUs of one node where nobody said how many (prepare's default is meant for
# cpu), and absolute paths, since prepare changes the folder.
npu_devices() { # count
  local variable
  if [[ ${LMSV_DEVICE:-} != npu ]]; then return; fi
  export NPUS_PER_NODE=${NPUS_PER_NODE:-$1}
  for variable in MINDSPEED_MM_PATH DATASET_ROOT DATASET_PATH LOAD_PATH SAVE_PATH LMSV_RUN_DIR \
    LMSV_ENV MM_MODEL MM_DATA LMSV_ARGS WORKSPACE_ROOT MINDSPEED_PATH; do
    if [[ -n ${!variable:-} && ${!variable} != /* ]]; then
      export "$variable=$PWD/${!variable}"
    fi
  done
}

# CANN's and conda's scripts read variables that are not set.
npu_source() { # file argument...
  set +u
  # shellcheck disable=SC1090
  source "$@"
  set -u
}

# All that comes before the model's own variables: site, CANN, environment, paths, common variables.
npu_begin() {
  npu_site
  npu_cann
  npu_environment
  npu_paths
  npu_variables
  "$npu_python" "$launchers/npu_ports.py" "$HCCL_IF_BASE_PORT" "$((NPUS_PER_NODE * 2))"
}

# MINDSPEED_MM_PATH may name the code or the workspace above it, as in Task6.
npu_site() {
  if [[ -z ${MINDSPEED_MM_PATH:-} ]]; then
    npu_stop "MINDSPEED_MM_PATH is not set: name the folder of MindSpeed-MM"
  fi
  if [[ ! -f $MINDSPEED_MM_PATH/pretrain_vlm.py ]]; then
    if [[ ! -f $MINDSPEED_MM_PATH/MindSpeed-MM/pretrain_vlm.py ]]; then
      npu_stop "MINDSPEED_MM_PATH: no pretrain_vlm.py in $MINDSPEED_MM_PATH or its MindSpeed-MM"
    fi
    MINDSPEED_MM_PATH=$MINDSPEED_MM_PATH/MindSpeed-MM
  fi
  export MINDSPEED_MM_PATH
  export WORKSPACE_ROOT=${WORKSPACE_ROOT:-$(dirname "$MINDSPEED_MM_PATH")}
  export MINDSPEED_PATH=${MINDSPEED_PATH:-$WORKSPACE_ROOT/MindSpeed}
  if ((NNODES > 1)) && [[ $MASTER_ADDR == 127.* || $MASTER_ADDR == localhost ]]; then
    npu_stop "MASTER_ADDR is $MASTER_ADDR with $NNODES nodes: name an address they all reach"
  fi
}

# Both stacks take the same CANN: 8.3 and newer lie in cann, older ones in ascend-toolkit.
npu_cann() {
  local root=${LMSV_ASCEND_ROOT:-/usr/local/Ascend} file
  for file in "$root/cann/set_env.sh" "$root/ascend-toolkit/set_env.sh"; do
    if [[ -f $file ]]; then
      npu_source "$file"
      if [[ $LMSV_STACK == msa && -f $root/nnal/atb/set_env.sh ]]; then
        npu_source "$root/nnal/atb/set_env.sh" --cxx_abi=0
      fi
      return
    fi
  done
  # In a container CANN's variables may be there without its script.
  if [[ -z ${ASCEND_HOME_PATH:-} ]]; then
    npu_stop "no CANN: no set_env.sh in $root/cann or $root/ascend-toolkit; install it, or set LMSV_ASCEND_ROOT"
  fi
}

# The folder of a conda environment by name, asked of any conda or mamba, else looked for.
npu_conda_folder() { # name
  local tool folder root
  for tool in "${CONDA_EXE:-}" conda "${MAMBA_EXE:-}" mamba micromamba; do
    if [[ -n $tool ]] && command -v "$tool" >/dev/null 2>&1; then
      folder=$("$tool" env list 2>/dev/null | awk -v name="$1" '$1 == name { print $NF; exit }')
      if [[ -n $folder ]]; then
        printf '%s' "$folder"
        return
      fi
    fi
  done
  for root in "${HOME:-/root}"/{miniconda3,anaconda3,miniforge3,mambaforge,micromamba,.conda} \
    /opt/{conda,miniconda3,anaconda3,miniforge3} /usr/local/{miniconda3,anaconda3}; do
    if [[ -x $root/envs/$1/bin/python ]]; then
      printf '%s' "$root/envs/$1"
      return
    fi
  done
}

# The stack's environment: a folder (LMSV_ENV), else the conda environment PTA_NAME or MSA_NAME.
npu_environment() {
  local name variable script
  variable=${LMSV_STACK^^}_NAME
  name=${!variable:-}
  if [[ -z $name ]]; then
    if [[ $LMSV_STACK == pta ]]; then name=mindspeed; else name=msadapter; fi
  fi
  npu_env=${LMSV_ENV:-}
  if [[ -z $npu_env && $name == */* ]]; then npu_env=$name; fi
  if [[ -z $npu_env ]]; then npu_env=$(npu_conda_folder "$name"); fi
  if [[ -z $npu_env ]]; then
    npu_stop "no conda environment named $name: make it, or set $variable or LMSV_ENV (a folder)"
  fi
  if [[ ! -x $npu_env/bin/python ]]; then
    npu_stop "$npu_env: no bin/python there; set $variable or LMSV_ENV to an environment of $LMSV_STACK"
  fi
  npu_python=$npu_env/bin/python
  # msrun starts `python` from PATH.
  export CONDA_PREFIX=$npu_env PATH=$npu_env/bin:$PATH
  for script in "$npu_env"/etc/conda/activate.d/*.sh; do
    if [[ -f $script ]]; then npu_source "$script"; fi
  done
  if [[ $LMSV_STACK == msa ]]; then
    # MindSpore's libraries want a newer libstdc++ than the system's (GLIBCXX_3.4.29).
    export LD_LIBRARY_PATH=$npu_env/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
}

# The stack's own sources first; what CANN's script put on PYTHONPATH stays behind them.
npu_paths() {
  local paths=$WORKSPACE_ROOT/Megatron-LM:$MINDSPEED_PATH:$MINDSPEED_MM_PATH adapter
  if [[ $LMSV_STACK == msa ]]; then
    adapter=$WORKSPACE_ROOT/MSAdapter
    # Task6's workspaces write it in small letters.
    if [[ ! -d $adapter && -d $WORKSPACE_ROOT/msadapter ]]; then
      adapter=$WORKSPACE_ROOT/msadapter
    fi
    paths=$adapter:$adapter/msa_thirdparty:$paths
  fi
  export PYTHONPATH=$paths${PYTHONPATH:+:$PYTHONPATH}
}

# A model's launcher sets what differs from this before or after.
npu_variables() {
  export CUDA_DEVICE_MAX_CONNECTIONS=1 # Megatron asks for it; it does nothing on an NPU
  export ASCEND_SLOG_PRINT_TO_STDOUT=0 ASCEND_GLOBAL_LOG_LEVEL=${ASCEND_GLOBAL_LOG_LEVEL:-3}
  export COMBINED_ENABLE=1 CPU_AFFINITY_CONF=1
  export HCCL_CONNECT_TIMEOUT=${HCCL_CONNECT_TIMEOUT:-1200}
  export HCCL_IF_BASE_PORT=${HCCL_IF_BASE_PORT:-61000}
  export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
  export TOKENIZERS_PARALLELISM=False
  export ASCEND_PROCESS_LOG_PATH=${ASCEND_PROCESS_LOG_PATH:-$LMSV_RUN_DIR/ascend_log}
  mkdir -p "$ASCEND_PROCESS_LOG_PATH"
  if ((NNODES > 1)); then
    # Overlapped communication and determinism deadlock over nodes, blocking launches hang them.
    unset HCCL_DETERMINISTIC
    export ENABLE_OVERLAP="" ASCEND_LAUNCH_BLOCKING=0 MS_DEV_LAUNCH_BLOCKING=0
  else
    export HCCL_DETERMINISTIC=true
  fi
}

# The call that generates, which the entry wrapper times (the model's YAML names it for the harness).
npu_patch_point() { # module function
  export LMSV_PATCH_POINT=${LMSV_PATCH_POINT:-$1:$2}
}

# The checkpoint that the run starts from, into npu_load. LOAD_PATH="" asks for fresh weights; a
# folder that is named must hold one: MindSpeed-MM itself starts from random where there is none.
npu_checkpoint() { # default
  local marker=latest_checkpointed_iteration.txt
  npu_load=()
  if [[ -n ${LOAD_PATH-} ]]; then
    if [[ ! -f $LOAD_PATH/$marker ]]; then
      npu_stop "LOAD_PATH: no $marker in $LOAD_PATH; convert the weights (mm-convert), or set LOAD_PATH= for fresh ones"
    fi
  elif [[ -z ${LOAD_PATH+set} && -f $1/$marker ]]; then
    LOAD_PATH=$1
  else
    LOAD_PATH=
  fi
  export LOAD_PATH
  if [[ -n $LOAD_PATH ]]; then
    npu_load=(--load "$LOAD_PATH")
  else
    export LMSV_FRESH_WEIGHTS=1 # the entry wrapper fills them, equal on both stacks
  fi
}

# The documents of this node, paths filled in, under LMSV_RUN_DIR (edits only through Python).
npu_documents() { # option...
  "$npu_python" "$launchers/npu_documents.py" "$@"
  npu_model=$LMSV_RUN_DIR/documents/model.json
  npu_data=$LMSV_RUN_DIR/documents/data.json
}

# The model's arguments as they are on NNODES nodes, into npu_arguments: no overlap on several, and
# each node brings its own share of samples (the steps of accumulation stay).
npu_model_arguments() {
  local token previous="" tokens
  mapfile -t tokens <"$LMSV_ARGS"
  npu_arguments=()
  for token in "${tokens[@]}"; do
    if ((NNODES > 1)); then
      if [[ $token == --overlap-grad-reduce || $token == --overlap-param-gather ]]; then continue; fi
      if [[ $previous == --global-batch-size ]]; then token=$((token * NNODES)); fi
    fi
    npu_arguments+=("$token")
    previous=$token
  done
  # argparse takes the last: a setting of the person who starts the launcher.
  if [[ -n ${LMSV_TP:-} ]]; then npu_arguments+=(--tensor-model-parallel-size "$LMSV_TP"); fi
  if [[ -n ${LMSV_PP:-} ]]; then npu_arguments+=(--pipeline-model-parallel-size "$LMSV_PP"); fi
  if [[ -n ${LMSV_CP:-} ]]; then npu_arguments+=(--context-parallel-size "$LMSV_CP"); fi
  npu_arguments+=(--seed "$LMSV_SEED" --distributed-backend nccl)
  if [[ $LMSV_STACK == msa ]]; then npu_arguments+=(--ai-framework mindspore); fi
}

# Documents, weights and output of a training run.
npu_training_arguments() {
  npu_model_arguments
  npu_arguments+=(
    --train-iters "$TRAIN_ITERS"
    --mm-model "$npu_model" --mm-data "$npu_data"
    --mm-tool "$MINDSPEED_MM_PATH/mindspeed_mm/tools/tools.json"
    --log-interval 1 --save-interval "$TRAIN_ITERS" --eval-interval 10000 --eval-iters 10
    --ckpt-format torch "${npu_load[@]}"
  )
  if [[ -n ${SAVE_PATH:-} ]]; then npu_arguments+=(--save "$SAVE_PATH"); fi
}

# The entry script under the entry wrapper, by the stack's own starter.
npu_run() { # script
  local entry=$MINDSPEED_MM_PATH/$1
  if [[ ! -f $entry ]]; then
    npu_stop "$entry is missing: MindSpeed-MM 2.2.0 or 2.3.0 has it"
  fi
  if [[ $LMSV_STACK == pta ]]; then
    run_torchrun "$entry" "${npu_arguments[@]}"
  fi
  npu_msrun "$entry"
}

# msrun names the workers' logs by global rank only where it is told the node's rank. Logs of an
# older, larger run would stay beside the new ones: rank 0 removes this run's own folder.
npu_msrun() { # script
  local logs=$LMSV_RUN_DIR/msrun_log
  if ((NODE_RANK == 0)); then rm -rf -- "$logs"; fi
  export LOCAL_WORLD_SIZE=$NPUS_PER_NODE
  exec msrun --worker_num "$((NNODES * NPUS_PER_NODE))" --local_worker_num "$NPUS_PER_NODE" \
    --node_rank "$NODE_RANK" --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
    --log_dir "$logs" --join=True --bind_core=True \
    --cluster_time_out="${MS_CLUSTER_TIMEOUT:-300}" "$launchers/entry.py" "$1" \
    "${npu_arguments[@]}"
}

# shellcheck shell=bash
# Functions of the launchers. The launch contract is DESIGN 6.3: all comes in by the environment,
# each variable has a default, nothing is written outside LMSV_RUN_DIR.

launchers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Defaults of the contract, and the folder that the run works in.
prepare() { # stack model
  export LMSV_STACK=$1
  local configs=${launchers%/*}/mm_configs/$2
  export LMSV_DEVICE=${LMSV_DEVICE:-cpu}
  export LMSV_RUN_DIR=${LMSV_RUN_DIR:-$PWD/run_$1_$2}
  export LMSV_RUN_ID=${LMSV_RUN_ID:-by-hand-$$}
  export LMSV_SEED=${LMSV_SEED:-43}
  export TRAIN_ITERS=${TRAIN_ITERS:-5}
  export MM_MODEL=${MM_MODEL:-$configs/$LMSV_DEVICE/model.json}
  export MM_DATA=${MM_DATA:-$configs/$LMSV_DEVICE/data.json}
  export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
  export MASTER_PORT=${MASTER_PORT:-29505}
  export NNODES=${NNODES:-1}
  export NODE_RANK=${NODE_RANK:-0}
  export NPUS_PER_NODE=${NPUS_PER_NODE:-1}
  export PYTHONUNBUFFERED=1
  mkdir -p "$LMSV_RUN_DIR"
  LMSV_RUN_DIR=$(cd "$LMSV_RUN_DIR" && pwd) # absolute, as the folder changes below
  if [[ -z ${LMSV_ARGS:-} ]]; then
    export LMSV_ARGS=$LMSV_RUN_DIR/args.txt
    python3 "$launchers/tokens.py" "$configs/$LMSV_DEVICE/args.json" >"$LMSV_ARGS"
  fi
  cd "$LMSV_RUN_DIR" || exit
  mapfile -t model_arguments <"$LMSV_ARGS"
  model_arguments+=(--mm-model "$MM_MODEL" --mm-data "$MM_DATA" --train-iters "$TRAIN_ITERS")
  if [[ -n ${SAVE_PATH:-} ]]; then model_arguments+=(--save "$SAVE_PATH"); fi
}

# The stack's environment on cpu: msrun starts `python` from PATH. One thread for each process,
# as the stacks are compared, not raced; MindSpore is many times slower with more.
use_cpu_environment() {
  if [[ -n ${LMSV_ENV:-} ]]; then export PATH=$LMSV_ENV/bin:$PATH; fi
  export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
  export GLOG_v=${GLOG_v:-3} # MindSpore: errors only
  if [[ -n ${LOAD_PATH:-} ]]; then
    echo "LOAD_PATH is not read on cpu: the small networks start from weights made by LMSV_SEED"
  fi
}

run_torchrun() { # script argument...
  exec torchrun --nproc_per_node "$NPUS_PER_NODE" --nnodes "$NNODES" --node_rank "$NODE_RANK" \
    --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" "$launchers/entry.py" "$@"
}

run_msrun() { # script argument...
  local node=()
  if ((NNODES > 1)); then node=(--node_rank "$NODE_RANK"); fi
  exec msrun --worker_num $((NNODES * NPUS_PER_NODE)) --local_worker_num "$NPUS_PER_NODE" \
    --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" "${node[@]}" \
    --log_dir "$LMSV_RUN_DIR/msrun_log" --join=True --cluster_time_out="${MS_CLUSTER_TIMEOUT:-300}" \
    "$launchers/entry.py" "$@"
}

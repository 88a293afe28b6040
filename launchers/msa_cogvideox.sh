#!/usr/bin/env bash
# CogVideoX (training) on MSA, started by msrun. The launch contract is DESIGN 6.3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=npu.sh
source "$(dirname "${BASH_SOURCE[0]}")/npu.sh"

on_cpu() {
  use_cpu_environment
  run_msrun "$launchers/cpu/pretrain_sora.py" "${model_arguments[@]}"
}

on_npu() {
  npu_begin
  export TASK_QUEUE_ENABLE=1
  npu_checkpoint "${DATASET_ROOT:-}/cogvideox/CogVideoX-5B"
  npu_documents --dataset cogvideox
  npu_training_arguments
  npu_arguments+=(--context-parallel-algo ulysses_cp_algo)
  npu_run pretrain_sora.py
}

npu_devices 8
prepare msa cogvideox
"on_$LMSV_DEVICE"

#!/usr/bin/env bash
# InternVL3-8B (training) on PTA, started by torchrun. The launch contract is DESIGN 6.3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=npu.sh
source "$(dirname "${BASH_SOURCE[0]}")/npu.sh"

on_cpu() {
  use_cpu_environment
  run_torchrun "$launchers/cpu/pretrain_vlm.py" "${model_arguments[@]}"
}

on_npu() {
  npu_begin
  export TASK_QUEUE_ENABLE=2 ACLNN_CACHE_LIMIT=100000
  # Task6's default place. Hugging Face's own files there are no checkpoint for MindSpeed-MM.
  npu_checkpoint "${DATASET_ROOT:-}/internvl3/raw_ckpt/InternVL3-8B"
  npu_documents --dataset internvl3
  npu_training_arguments
  npu_run pretrain_vlm.py
}

npu_devices 8
prepare pta internvl3
"on_$LMSV_DEVICE"

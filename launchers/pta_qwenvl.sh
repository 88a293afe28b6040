#!/usr/bin/env bash
# Qwen2.5-VL-7B (inference) on PTA, started by torchrun. The launch contract is DESIGN 6.3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=npu.sh
source "$(dirname "${BASH_SOURCE[0]}")/npu.sh"

on_cpu() {
  use_cpu_environment
  run_torchrun "$launchers/cpu/inference_vlm.py" "${model_arguments[@]}"
}

# One NPU on both stacks; more only where LMSV_TP is set.
on_npu() {
  npu_begin
  npu_patch_point mindspeed_mm.tasks.inference.pipeline.qwen2vl_pipeline Qwen2VlPipeline.generate
  export TASK_QUEUE_ENABLE=2 ACLNN_CACHE_LIMIT=100000 NPU_ASD_ENABLE=0
  npu_checkpoint "${DATASET_ROOT:-}/qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct"
  npu_documents --dataset qwen2.5vl --number "/generation_config/max_new_tokens=$TRAIN_ITERS"
  npu_model_arguments
  npu_arguments+=(
    --mm-model "$npu_model" --log-interval 1 --save-interval 10000 --eval-interval 10000
    --eval-iters 5000 "${npu_load[@]}"
  )
  npu_run inference_vlm.py
}

npu_devices "${LMSV_TP:-1}"
prepare pta qwenvl
"on_$LMSV_DEVICE"

#!/usr/bin/env bash
# OpenSora 1.2 (inference) on PTA, started by torchrun. The launch contract is DESIGN 6.3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=npu.sh
source "$(dirname "${BASH_SOURCE[0]}")/npu.sh"

on_cpu() {
  use_cpu_environment
  run_torchrun "$launchers/cpu/inference_sora.py" "${model_arguments[@]}"
}

on_npu() {
  npu_begin
  npu_patch_point mindspeed_mm.tasks.inference.pipeline.opensora_pipeline OpenSoraPipeline.__call__
  # The weights are named in the document: there is no --load.
  export LOAD_PATH=${LOAD_PATH:-${DATASET_ROOT:-}/opensora1.2}
  local samples=${LMSV_SAMPLES:-$LMSV_RUN_DIR/samples}
  npu_documents --dataset opensora1.2 --one-prompt /prompt \
    --number "/diffusion/num_inference_steps=$TRAIN_ITERS" --text "/save_path=$samples" \
    --needs "mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py=OpenSora 1.2 exists only in MindSpeed-MM 2.2.0"
  npu_model_arguments
  # Megatron asks for --train-iters; inference_sora.py does not read it.
  npu_arguments+=(--train-iters "$TRAIN_ITERS" --mm-model "$npu_model")
  npu_run inference_sora.py
}

npu_devices 1
prepare pta opensora
"on_$LMSV_DEVICE"

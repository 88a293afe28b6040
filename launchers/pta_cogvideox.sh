#!/usr/bin/env bash
# CogVideoX (training) on PTA, started by torchrun. The launch contract is DESIGN 6.3.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

on_cpu() {
  use_cpu_environment
  run_torchrun "$launchers/cpu/pretrain_sora.py" "${model_arguments[@]}"
}

prepare pta cogvideox
"on_$LMSV_DEVICE"

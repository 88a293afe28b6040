"""Entry script of OpenSora 1.2 on cpu: MindSpeed-MM's command line, a small network.

``--train-iters`` is the number of denoising steps: a launcher on npu writes it to
``num_inference_steps``, and here it stands for that key.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lmsv_record import RECORD

from cpu import arguments, scheduler


def main() -> None:
    """Make a video of each prompt; the first rank saves them in ``samples/`` of the run folder."""
    args = arguments.parse(sys.argv[1:])
    if scheduler.is_scheduler():
        scheduler.serve()
        return
    from cpu import noise, recording, stack, weights, workers

    fixes = stack.boot()
    group = workers.join()
    import numpy as np

    from cpu import gif
    from cpu.configuration import Configuration
    from cpu.opensora import OpenSora
    from cpu.pretrain_sora import dumped, say

    if args.get("load"):
        raise ValueError(f"--load {args['load']}: the cpu networks have no checkpoints")
    first = group.rank == 0
    RECORD.imports_done()
    configuration = Configuration.from_files(args=args, model=args["mm-model"])
    if first:
        say(dumped(args))
    seed = int(os.environ.get("LMSV_SEED") or args.get("seed", 1234))
    steps = int(args["train-iters"])
    pipeline = OpenSora(configuration, seed, steps)
    RECORD.begin(
        rank=group.rank,
        world_size=group.size,
        versions=stack.versions(),
        parameters=weights.fill(pipeline, seed),
        echo=configuration.echo,
        adapter_fixes=fixes,
        steps=steps,
    )
    folder = Path(os.environ.get("LMSV_RUN_DIR", ".")) / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    seconds, made = 0.0, []
    for number in range(len(pipeline.prompts)):
        begun = time.perf_counter()
        with recording.whole(pipeline, group.rank):
            video = pipeline.generate(number, Bar(steps) if first else lambda step: None)
        seconds += time.perf_counter() - begun
        made.append(video)
        if first:
            np.save(folder / f"video_{number}.npy", video)
            gif.write(folder / f"video_{number}.gif", video, pipeline.fps)
            say(f"Saved {number + 1} samples to {folder}")
    RECORD.facts["generation_s"] = seconds
    if first:
        say("Inference finished.")
        noise.measure(lambda number: noise.videos(pipeline, seed, made, number))
    group.close()


class Bar:
    """Writes tqdm's bar, which MindSpeed-MM shows, to stderr after each step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.begun = time.perf_counter()

    def __call__(self, step: int) -> None:
        seconds = time.perf_counter() - self.begun
        left = seconds / step * (self.steps - step)
        share = step / self.steps
        end = "\n" if step == self.steps else ""
        sys.stderr.write(
            f"\r{100 * share:3.0f}%|{'█' * round(10 * share):<10}| {step}/{self.steps} "
            f"[{clock(seconds)}<{clock(left)}, {seconds / step:5.2f}s/it]{end}"
        )
        sys.stderr.flush()


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    main()

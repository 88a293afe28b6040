"""Entry script of Qwen2.5-VL on cpu: MindSpeed-MM's command line, a small network."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lmsv_record import RECORD, number

from cpu import arguments, scheduler
from cpu.pretrain_sora import dumped, say


def main() -> None:
    """Answer one question about one picture; the first rank prints and keeps the answer."""
    args = arguments.parse(sys.argv[1:])
    if scheduler.is_scheduler():
        scheduler.serve()
        return
    from cpu import noise, recording, stack, weights, workers

    fixes = stack.boot()
    group = workers.join()
    from cpu import tokenizer
    from cpu.configuration import Configuration
    from cpu.qwenvl import QwenVL

    if args.get("load"):
        raise ValueError(f"--load {args['load']}: the cpu networks have no checkpoints")
    RECORD.imports_done()
    configuration = Configuration.from_files(args=args, model=args["mm-model"])
    first = group.rank == 0
    sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: tokens may be any character
    if first:
        say(dumped(args))
    seed = int(os.environ.get("LMSV_SEED") or args.get("seed", 1234))
    model = QwenVL(configuration, args.get("train-iters"))
    RECORD.begin(
        rank=group.rank,
        world_size=group.size,
        versions=stack.versions(),
        parameters=weights.fill(model.network, seed),
        echo=configuration.echo,
        adapter_fixes=fixes,
    )
    begun = time.perf_counter()
    with recording.whole(model.network, group.rank):
        found = model.answer()
    RECORD.facts.update(generation_s=time.perf_counter() - begun, steps=len(found.ids))
    if first:
        text = tokenizer.shown(found.ids)
        say(text)
        keep(
            {
                "picture": str(configuration.read("/model/image_path")),
                "prompt": model.question,
                "prompt_tokens": len(model.prompt),
                "token_ids": found.ids,
                "logprobs": [number(value) for value in found.logprobs],
                "text": text,
            }
        )
        noise.measure(lambda number: noise.answer(model, seed, found, number))
    group.close()


def keep(sample: dict) -> None:
    """Write *sample* to ``samples/answer_0.json`` of the run folder, whole or not at all."""
    folder = Path(os.environ.get("LMSV_RUN_DIR", ".")) / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".answer_0.{os.getpid()}"
    aside.write_text(json.dumps(sample, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    aside.rename(folder / "answer_0.json")


if __name__ == "__main__":
    main()

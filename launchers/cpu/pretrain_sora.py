"""Entry script of CogVideoX on cpu: MindSpeed-MM's command line, a small network."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lmsv_record import RECORD

from cpu import arguments, scheduler


def dumped(args: dict) -> str:
    """Return Megatron's dump of the arguments."""
    rows = [f"  {name.replace('-', '_')} {'.' * (48 - len(name))} {args[name]}" for name in args]
    head, foot = " arguments ", " end of arguments "
    lines = [f"{head:-^59}", *sorted(rows), f"{foot:-^59}"]
    return "\n".join(lines)


def main(network: str = "cpu.cogvideox:CogVideoX") -> None:
    """Train *network* for ``--train-iters`` steps; the last rank prints the iteration lines."""
    args = arguments.parse(sys.argv[1:])
    if scheduler.is_scheduler():
        scheduler.serve()
        return
    from cpu import noise, recording, stack, weights, workers

    fixes = stack.boot()
    group = workers.join()
    from cpu.configuration import Configuration
    from cpu.training import train

    if args.get("load"):
        raise ValueError(f"--load {args['load']}: the cpu networks have no checkpoints")
    first, last = group.rank == 0, group.rank == group.size - 1
    RECORD.imports_done()
    configuration = Configuration.from_files(
        args=args, model=args["mm-model"], data=args["mm-data"]
    )
    if first:
        say(dumped(args))
    seed = int(os.environ.get("LMSV_SEED") or args.get("seed", 1234))
    steps = int(args["train-iters"])
    module, name = network.split(":")
    model = getattr(import_module(module), name)(configuration, seed)
    if first:
        say(f"data set: {model.samples.listing}")

    def on_start(parameters) -> None:
        RECORD.begin(
            rank=group.rank,
            world_size=group.size,
            versions=stack.versions(),
            parameters=parameters,
            echo=configuration.echo,
            adapter_fixes=fixes,
        )
        if first:
            say("training ...")
            say(f"[before the start of training step] datetime: {now()} ")

    def on_step(step, loss, norm, each, line) -> None:
        RECORD.step(step, loss, norm, each)
        if last:
            say(line)

    train(
        configuration,
        model.network,
        model.micro_batch,
        model.loss,
        steps=steps,
        seed=seed,
        workers=group,
        on_start=on_start,
        on_step=on_step,
        recorder=recording.from_environment(),
    )
    if first and "save" in args:
        weights.save(model.network, Path(args["save"]), steps)
    if first:
        say(f"[after training is done] datetime: {now()} ")
    noise.measure(
        lambda number: noise.training(
            configuration, model, steps=steps, seed=seed, workers=group, noise=number
        )
    )
    group.close()


def say(text: str) -> None:
    """Print *text* by one write, so that the lines of two ranks never mix."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def now() -> str:
    return f"{datetime.now():%Y-%m-%d %H:%M:%S}"


if __name__ == "__main__":
    main()

"""The faults of the bank, as patches of a running stack; what each is, bank/*.yaml says.

Runs in a stack's environment (launchers/cpu/serve.py --plants): ``torch`` is PyTorch on PTA and
mindtorch on MSA, and every patch works on both. A plant returns what is to be set, as
``(holder, attribute, value)``; ``planted`` sets it and takes it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from plants.field import FIELD

INHERITED = object()
"""What a holder answers by way of another one, as mindtorch answers as torch."""

for kind in ("forward", "layers", "backward", "optimizer", "data", "workers", "generation"):
    import_module(f"plants.{kind}")


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the fault *name* for the body of the with statement; KeyError where there is none."""
    patches = FIELD[name]()
    own = [vars(holder).get(attribute, INHERITED) for holder, attribute, _ in patches]
    try:
        for holder, attribute, value in patches:
            setattr(holder, attribute, value)
        yield
    finally:
        for (holder, attribute, _), value in zip(patches, own, strict=True):
            if value is INHERITED:
                delattr(holder, attribute)
            else:
                setattr(holder, attribute, value)

"""Step records that look like the ones before: read without a closer look.

A log may hold millions. Once the usual way has read one, its fields are known by place and key.
"""

from __future__ import annotations

from pytest_lmsv.logs.metrics import StepRecord, meaning_of

_WANTED = ("time", "rate", "norm", "skipped", "nan", "loss")


class Quick:
    """Reads a line as the last record that was learnt, or not at all."""

    def __init__(self) -> None:
        self._fields: dict[str, tuple[int, bytes]] = {}
        self._count = 0
        self._keys = ("", "")

    def learn(self, text: str, record: StepRecord) -> None:
        """*record* was read in *text*, the whole line."""
        parts = text.encode("utf-8", "replace").split(b"|")
        fields: dict[str, tuple[int, bytes]] = {}
        for index, part in enumerate(parts[1:-1], 1):
            key, colon, _ = part.rpartition(b":")
            meaning, name = meaning_of(key.decode("utf-8", "replace"))
            if meaning is not None and meaning.isdigit():
                meaning = "loss" if name == record.loss_key else None
            if meaning == "time" and not name.endswith("(ms)"):
                meaning = None
            if meaning in _WANTED and colon:
                fields[meaning] = (index, key + colon)
        # Without all of them the usual way decides what a missing one means.
        self._fields = fields if set(_WANTED) <= set(fields) else {}
        self._count = len(parts)
        self._keys = (record.loss_key, record.last_key)

    def __call__(self, line: bytes) -> StepRecord | None:
        if not self._fields:
            return None
        parts = line.split(b"|")
        if len(parts) != self._count or parts[-1].strip():
            return None
        at = parts[0].find(b"iteration ")
        if at < 0 or at > 32 or not (at <= 1 or parts[0].startswith(b" [2", 0, at)):
            return None  # a prefix tells a rank: the usual way reads it
        values: dict[str, float] = {}
        try:
            step, _, steps = parts[0][at + 10 :].partition(b"/")
            for meaning, (index, key) in self._fields.items():
                part = parts[index]
                if not part.startswith(key):
                    return None
                values[meaning] = float(part[len(key) :])
            return StepRecord(
                int(step), int(steps), values["loss"], self._keys[0], values["norm"],
                values["time"], values["rate"], int(values["skipped"]),
                int(values["nan"]), self._keys[1], True,
            )  # fmt: skip
        except (ValueError, OverflowError):
            return None

"""The fields of Task6's ``config.json``: where each stands, what it holds, which setting it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pytest_lmsv.task6_config import values


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``home`` is where Task6 puts it; the other place is read too."""

    name: str
    home: Literal["root", "task"]
    understand: values.Understand
    setting: str
    """The name under which ``Task6Config`` and the plugin's settings hold it."""
    question: str
    default: Any = None
    """Task6's value where the field is missing; None: the setting's own default holds."""
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which the field may stand, its own first."""
        return (self.name, *self.aliases)


FIELDS = (
    Field("MODEL_NAME", "task", values.model, "model", "Model", "internvl3"),
    Field("TOTAL_ITER", "task", values.whole(1), "iters", "Valid iterations of each model", 10),
    Field("MUTNM", "task", values.whole(1), "mutations", "Edits of each mutation", 2),
    Field(
        "TRAIN_ITER",
        "task",
        values.whole(1),
        "steps",
        "Training steps, or denoising / generation steps",
        5,
        ("SAVE_STEPS", "TRAIN_ITERS"),
    ),
    Field("COMPARE_MODE", "task", values.compare, "compare", "What to compare", "pta_msa"),
    Field("BASE_SEED", "task", values.whole(0, 2**32 - 1), "seed", "Seed", 43),
    Field(
        "PTA_MAX_RUNTIME",
        "task",
        values.seconds,
        "pta_timeout",
        "Time limit of a PTA run (s)",
        3000,
    ),
    Field(
        "MSA_MAX_RUNTIME",
        "task",
        values.seconds,
        "msa_timeout",
        "Time limit of an MSA run (s)",
        3000,
        ("MAX_VALIDATE_TIME",),
    ),
    Field("PERSIST_ROOT", "task", values.folder, "output", "Folder of the results"),
    Field(
        "PTA_NAME",
        "root",
        values.text,
        "pta_env",
        "Conda environment of PTA",
        "mindspeed",
        ("PTANAME",),
    ),
    Field(
        "MSA_NAME",
        "root",
        values.text,
        "msa_env",
        "Conda environment of MSA",
        "msadapter",
        ("MSANAME",),
    ),
    Field(
        "MINDSPEED_MM_PATH",
        "root",
        values.folder,
        "mindspeed_mm_path",
        "MindSpeed-MM (its folder or the workspace above it)",
    ),
    Field("DATASET_ROOT", "root", values.folder, "dataset_root", "Folder of the data sets"),
    Field("LOAD_PATH", "root", values.folder, "load_path", "Initial weights"),
    Field("PTA_PATH", "root", values.folder, "pta_path", "Workspace of PTA", None, ("PTAPATH",)),
    Field("MSA_PATH", "root", values.folder, "msa_path", "Workspace of MSA", None, ("MSAPATH",)),
    Field(
        "SAVE_ABNORMAL_WEIGHTS",
        "root",
        lambda value: "abnormal" if values.truth(value) else "never",
        "save_weights",
        "Keep the weights of iterations that are NG or failed (true or false)",
    ),
)

WITHOUT_MEANING = {
    "SHARED_WEIGHT_TMP_ROOT": "weights go into the iteration's folder",
    "MODE": "there is one mode",
    "ITER_RESULT_DIR": "iterations are always kept under iters/",
    "HAS_CONTAINER": "nodes are reached by SSH; give the container's own SSH port as SSH_PORT",
    "CONTAINER_NAME": "nodes are reached by SSH; give the container's own SSH port as SSH_PORT",
    "NPUS_PER_NODE": "the device set decides how many NPUs are used",
    "HCCL_IF_IP": "each node's own HOST is taken",
    "NODE_RANK": "ranks follow the order of OTHER_NODES",
}
OF_OTHER_TASKS = frozenset({"MF_NAME", "MFNAME", "CLUSTER"})
ROOT_KEYS = frozenset({"task_type", "tasks", "MULTI_NODE"})

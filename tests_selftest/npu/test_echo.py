"""Did the mutation arrive? What a log says of the configuration that was read."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_lmsv.logs.echo import arrived, echo, value
from pytest_lmsv.records import Edit

DOCUMENTS: dict[str, Any] = {
    "model": {"text_decoder": {"num_layers": 28, "hidden_size": 3584, "layernorm_epsilon": 1e-6}},
    "data": {},
    "args": {"lr": 2e-5, "no-masked-softmax-fusion": True, "no-load-optim": True, "bf16": True},
}
LOG = """\
using world size: 8, data-parallel size: 2
[INFO] the original value of num_layers is None, now changed as 24 which comes from model.json
[INFO] the original value of seq_length is 4096, now changed as 3072 which comes from model.json
------------------------ arguments ------------------------
  adam_beta1 ...................................... 0.9
  bf16 ............................................ True
  lr .............................................. 5e-05
  masked_softmax_fusion ........................... False
  mm_model ........................................ /data/run/documents/model.json
  no_load_optim ................................... True
-------------------- end of arguments ---------------------
  lr .............................................. 9.0
"""


def test_the_log_shows_structure_and_arguments() -> None:
    assert echo(LOG.splitlines(), DOCUMENTS) == {
        "/model/text_decoder/num_layers": 24,
        "/args/bf16": True,
        "/args/lr": 5e-5,
        "/args/no-masked-softmax-fusion": True,
        "/args/no-load-optim": True,
    }


def test_a_diffusion_networks_own_names_are_found() -> None:
    documents = {"model": {"predictor": {"num_heads": 48, "dropout": 0.0}}, "data": {}, "args": {}}
    lines = [
        "[INFO] the original value of num_attention_heads is None, now changed as 24 which comes "
        "from model.json",
        "[INFO] the original value of attention_dropout is 0.1, now changed as 0.3 which comes "
        "from model.json",
    ]
    assert echo(lines, documents) == {
        "/model/predictor/num_heads": 24,
        "/model/predictor/dropout": 0.3,
    }


def test_an_edit_has_arrived_where_its_new_value_is_shown() -> None:
    shown = echo(LOG.splitlines(), DOCUMENTS)
    there = Edit("/model/text_decoder/num_layers", 28, 24)
    same = Edit("/args/lr", 2e-5, 5e-5)
    other = Edit("/args/lr", 2e-5, 1e-5)
    unseen = Edit("/model/text_decoder/layernorm_epsilon", 1e-6, 1e-5)
    assert arrived([there, same, other, unseen], shown) == (there, same)
    assert arrived([Edit("/args/x", 0, 1)], {"/args/x": True}) == ()
    assert arrived([Edit("/args/x", 2.0, 1.0)], {"/args/x": 1})


@pytest.mark.parametrize(
    ("text", "meant"),
    [("None", None), ("True", True), ("1e-05", 1e-5), ("[6, 8]", [6, 8]), ("cosine", "cosine")],
)
def test_printed_values(text: str, meant: Any) -> None:
    assert value(text) == meant

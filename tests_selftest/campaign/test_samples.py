"""Samples are read as they were saved, without NumPy; what can't be read says why."""

from __future__ import annotations

import json
import struct
from array import array
from pathlib import Path

import pytest

from pytest_lmsv.campaign.samples import read
from pytest_lmsv.judge.output import Text, Unreadable, Video


def npy(
    path: Path, numbers: array[float] | array[int], shape: str, descr: str, order: str = "False"
) -> None:
    """Write a .npy file of format 1.0 by hand (NEP 1)."""
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    header = header.ljust(118) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with path.open("ab") as file:
        file.write(numbers.tobytes())


def test_text_and_videos_are_read_and_pictures_for_people_are_not(tmp_path: Path) -> None:
    answer = {"token_ids": [3, 1, 2], "text": "a b", "logprobs": [0.5]}
    (tmp_path / "answer_0.json").write_text(json.dumps(answer), encoding="utf-8")
    npy(tmp_path / "video_0.npy", array("f", [0.5, -1.0, 2.0, 0.0]), "(2, 2)", "<f4")
    npy(tmp_path / "video_1.npy", array("d", [0.1]), "(1,)", "<f8")
    npy(tmp_path / "video_2.npy", array("B", [255, 0]), "(2,)", "|u1")
    (tmp_path / "video_0.gif").write_bytes(b"GIF89a")
    found = read(tmp_path)
    assert list(found) == ["answer_0.json", "video_0.npy", "video_1.npy", "video_2.npy"]
    assert found["answer_0.json"] == Text((3, 1, 2), "a b", (0.5,))
    assert found["video_0.npy"] == Video((2, 2), array("f", [0.5, -1.0, 2.0, 0.0]))
    assert found["video_1.npy"] == Video((1,), array("d", [0.1]))
    assert found["video_2.npy"] == Video((2,), array("B", [255, 0]))


def test_no_folder_holds_no_samples(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b"{", "not a sample"),
        ("a.json", b"{}", "'token_ids'"),
        ("a.json", b'{"token_ids": 7}', "not iterable"),
        ("a.json", b"\xff", "not a sample"),
        ("a.npy", b"", "it is no .npy file"),
        ("a.npy", b"\x93NUMPY\x01\x00\x09\x00{'descr':", "not a sample"),
    ],
)
def test_a_broken_sample_says_what_it_is(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    found = read(tmp_path)[name]
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_a_type_a_layout_or_a_length_that_does_not_fit_is_not_guessed(tmp_path: Path) -> None:
    npy(tmp_path / "a.npy", array("f", [1.0]), "(1,)", "<f2")
    npy(tmp_path / "b.npy", array("f", [1.0]), "(1,)", "<f4", order="True")
    npy(tmp_path / "c.npy", array("f", [1.0]), "(2,)", "<f4")
    assert all(isinstance(found, Unreadable) for found in read(tmp_path).values())

"""Without a browser the tests of the page are skipped with the remedy; required, they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_selftest.page.browser import browser


@pytest.mark.parametrize(
    ("required", "end"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_missing_browser_is_told_with_its_remedy(
    required: str, end: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LMSV_REQUIRE_BROWSER", required)
    with pytest.raises(end, match="apt-get install chromium"), browser():
        pass

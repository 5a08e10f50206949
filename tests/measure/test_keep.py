"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import InvalidInput
from planner.measure.keep import require_writable, write_whole


def test_what_was_there_is_replaced_and_nothing_lies_beside(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    for content in ("first", "second, ñ"):
        write_whole(path, content)
        assert path.read_text(encoding="utf-8") == content
    assert os.listdir(tmp_path) == ["here.json"]


def test_a_new_file_is_its_owner_s_alone_and_one_that_was_there_keeps_its_readers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "here.json"
    write_whole(path, "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_whole(path, "second")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("second", 0o644)


def test_what_is_interrupted_leaves_what_was_there_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "here.json"
    path.write_text("the old one")

    def stopped(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("planner.measure.keep.os.fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "the new one")
    assert (os.listdir(tmp_path), path.read_text()) == (["here.json"], "the old one")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "here.json"
    path.write_text("the old one")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("planner.measure.keep.os.fsync", full)
    with pytest.raises(InvalidInput) as refusal:
        write_whole(path, "the new one")
    assert refusal.value.code == "file_cannot_be_written"
    assert refusal.value.values == {"file": str(path), "reason": "No space left on device"}
    assert path.read_text() == "the old one"
    assert os.listdir(tmp_path) == ["here.json"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_whole(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_a_device_is_written_to_and_stays() -> None:
    write_whole(Path(os.devnull), "away")
    require_writable(Path(os.devnull))
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_place_that_cannot_be_written_is_said_before(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    for path in (tmp_path, tmp_path / "missing/here.json", tmp_path / "a-file/here.json"):
        with pytest.raises(InvalidInput) as refusal:
            require_writable(path)
        assert refusal.value.values["file"] == str(path)
    path = tmp_path / "here.json"
    path.write_text("kept")
    require_writable(path)
    assert path.read_text() == "kept"
    assert sorted(os.listdir(tmp_path)) == ["a-file", "here.json"]


@pytest.mark.parametrize(
    "verb", [["measure", "--device", "cpu"], ["measure", "import", "-"], ["measure", "endpoint", "http://127.0.0.1:9"]]
)  # fmt: skip
def test_a_command_says_it_before_it_works(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing/here.json"
    assert main([*verb, "-o", str(path), "--lang", "en"]) == 1
    said = capsys.readouterr()
    assert said.err.strip() == f"{path} can't be written: No such file or directory."

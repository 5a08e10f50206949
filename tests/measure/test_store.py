"""Measurements in files: nothing lost, nothing overwritten unasked, no name a path, a damaged file no disaster."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InvalidInput, PlannerError
from planner.measure import store as stores
from planner.measure.record import Record, parse_record
from planner.measure.store import KEY, Store, default_home, key_of, renamed

SPREAD = {"median": 0.1, "low": 0.09, "high": 0.12, "repeats": 5}
ERROR = {
    "rows": 4, "before_fraction": 0.4, "after_fraction": 0.1, "low_fraction": -0.1, "high_fraction": 0.2,
}  # fmt: skip
CONSTANT = {"value": 0.5, "deviation": 0.1, "identified_fraction": 0.8, "at_bound": False}
CALIBRATION = {
    "schema_version": 1, "name": "here", "date": "2026-11-30", "accelerator": "t4", "engine": "transformers",
    "engine_version": "5.24", "kinds": ["16bit"], "experts": False,
    "constants": {"transformers": {"t4.prefill.16bit": CONSTANT}},
    "tpot": ERROR, "ttft": ERROR | {"rows": 12, "after_fraction": 0.2},
}  # fmt: skip


def record(name: str = "here", **changes: Any) -> Record:
    return parse_record(
        json.dumps(
            {
                "format": "headroom-measurement",
                "schema_version": 1,
                "name": name,
                "date": "2026-11-30T12:00:00+00:00",
                "origin": "device",
                "accelerator": "t4",
                "conditions": {"noisy": False},
                "rows": [
                    {
                        "id": "a",
                        "scenario": {"model": "x", "engine": "transformers"},
                        "arrivals": "together",
                        "measured": {"tpot_s": SPREAD},
                    }
                ],
            }
            | changes
        )
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def refused(code: str) -> Any:
    return pytest.raises(PlannerError, match=rf"^{code}\(")


def test_what_was_saved_comes_back(store: Store) -> None:
    key = store.save(record())
    assert store.load(key) == record()
    assert Store(store.home).load(key) == record()


def test_the_list_says_what_each_is(store: Store) -> None:
    store.save(record("old", date="2026-11-01T00:00:00+00:00"))
    key = store.save(record("new", calibration=CALIBRATION))
    first, second = store.kept()
    assert (first.key, first.name, first.accelerator, first.engine) == (
        key,
        "new",
        "t4",
        "transformers",
    )
    assert first.errors == {"tpot": (0.4, 0.1), "ttft": (0.4, 0.2)}
    assert (second.name, second.errors) == ("old", {})


def test_nothing_is_listed_before_anything_is_saved(store: Store) -> None:
    assert store.kept() == []
    assert store.left_behind() == []
    assert not store.home.exists()


def test_a_damaged_file_is_listed_as_damaged_and_can_be_deleted(store: Store) -> None:
    good = store.save(record())
    (store.folder / "broken-1.json").write_text('{"format": "headroom-measurement", "schema')
    (store.folder / "binary-1.json").write_bytes(b"\xff\xfe\x00")
    (store.folder / "Not Ours.json").write_text("{}")
    kept = store.kept()
    assert [one.key for one in kept if one.refusal is None] == [good]
    damaged = {one.key: one.refusal for one in kept if one.refusal is not None}
    assert {key: refusal.code for key, refusal in damaged.items()} == {
        "broken-1": "measurement_not_json",
        "binary-1": "measurement_not_json",
    }
    store.restore(store.delete("broken-1"))
    assert (store.folder / "broken-1.json").exists()


def test_only_files_are_read(store: Store) -> None:
    good = store.save(record())
    os.mkfifo(store.folder / "pipe-1.json")
    (store.folder / "zero-1.json").symlink_to("/dev/zero")
    (store.folder / "folder-1.json").mkdir()
    assert [one.key for one in store.kept()] == [good]
    for key in ("pipe-1", "zero-1", "folder-1"):
        with refused("measurement_gone"):
            store.load(key)
    running = store.place_for_run()
    os.mkfifo(running)
    assert store.collect(running) is None


def test_the_same_measurement_twice_is_one(store: Store) -> None:
    assert store.save(record()) == store.save(record())
    assert len(store.kept()) == 1


def test_another_of_the_same_name_is_refused_unless_it_shall_replace(store: Store) -> None:
    key = store.save(record())
    other = record(notes=["other"])
    with refused("measurement_name_taken"):
        store.save(other)
    assert store.load(key) == record()
    assert store.save(other, replace=True) == key
    assert store.load(key) == other
    assert [parse_record(path.read_text()) for path in store.trash.glob("*.json")] == [record()]


def test_a_new_one_gets_a_number_where_its_name_is_taken(store: Store) -> None:
    long = "x" * 80
    for number, ending in ((1, ""), (2, " (2)"), (3, " (3)")):
        key, kept = store.save_new(
            record(long, notes=[str(number)], calibration=CALIBRATION | {"name": long})
        )
        assert kept.name == long[: 80 - len(ending)] + ending
        assert kept.calibration is not None
        assert kept.calibration.name == kept.name
        assert store.load(key) == kept


def test_a_new_name_reaches_the_calibration_and_leaves_one_file(store: Store) -> None:
    key = store.save(record(calibration=CALIBRATION))
    new = store.rename(key, "  after \n the\tfan ")
    found = store.load(new)
    assert found.name == "after the fan"
    assert found.calibration is not None
    assert found.calibration.name == "after the fan"
    assert [one.key for one in store.kept()] == [new]
    assert store.rename(new, "after the fan") == new


def test_a_name_that_is_taken_or_none_is_refused_and_nothing_changes(store: Store) -> None:
    key = store.save(record("one"))
    store.save(record("two"))
    with refused("measurement_name_taken"):
        store.rename(key, "two")
    for name in ("", " \n", "\x00", "x" * 81):
        with refused("measurement_bad_name"):
            store.rename(key, name)
    assert sorted(one.name for one in store.kept()) == ["one", "two"]


def test_deleting_can_be_undone(store: Store) -> None:
    key = store.save(record())
    token = store.delete(key)
    assert store.kept() == []
    with refused("measurement_gone"):
        store.load(key)
    assert store.restore(token) == key
    assert store.load(key) == record()
    with refused("measurement_gone"):
        store.restore(token)


def test_undo_does_not_overwrite_what_came_after(store: Store) -> None:
    token = store.delete(store.save(record()))
    key = store.save(record(notes=["later"]))
    with refused("measurement_name_taken"):
        store.restore(token)
    assert store.load(key).notes == ["later"]
    store.delete(key)
    assert store.restore(token) == key
    assert store.load(key) == record()


def test_the_trash_is_emptied_of_what_is_old_or_too_much(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_TRASH", 3)
    old = store.delete(store.save(record("old")))
    os.utime(store.trash / f"{old}.json", (0, 0))
    tokens = [store.delete(store.save(record("new")))]
    assert {path.stem for path in store.trash.glob("*.json")} == set(tokens)
    for number in range(4):
        for age, token in enumerate(reversed(tokens), start=1):
            os.utime(store.trash / f"{token}.json", (time.time() - age, time.time() - age))
        tokens.append(store.delete(store.save(record(str(number)))))
        assert {path.stem for path in store.trash.glob("*.json")} == set(tokens[-3:])
        tokens = tokens[-3:]


@pytest.mark.parametrize("key", ["..", "../x", "a/b", "", "A", "x" * 81, "trash/../x", "a\n"])
def test_a_key_that_is_a_path_finds_nothing(store: Store, key: str) -> None:
    (store.home.parent / "x.json").write_text("secret")
    for act in (store.load, store.delete, store.restore):
        with refused("measurement_gone"):
            act(key)
    with refused("measurement_gone"):
        store.restore(f"{key}~{'0' * 32}")


@given(st.text(min_size=1, max_size=80))
def test_every_name_has_a_harmless_key(name: str) -> None:
    assert KEY.fullmatch(key_of(name))


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_names_have_two_keys(one: str, two: str) -> None:
    assert (key_of(one) == key_of(two)) == (one == two)


def test_too_many_and_too_much_are_refused_rather_than_dropped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_KEPT", 2)
    store.save(record("1"))
    key = store.save(record("2"))
    with refused("measurements_full"):
        store.save(record("3"))
    with refused("measurements_full"):
        store.save_new(record("3"))
    assert store.save(record("2")) == key
    monkeypatch.setattr(stores, "MAX_KEPT", 100)
    monkeypatch.setattr(stores, "MAX_TOTAL_BYTES", 2_000)
    with refused("measurements_full"):
        store.save(record("3"))
    assert len(store.kept()) == 2


def test_a_folder_that_cannot_be_made_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file")
    with refused("file_cannot_be_written"):
        store.save(record())
    with refused("file_cannot_be_written"):
        store.place_for_run()
    assert store.kept() == []


def test_half_a_file_is_never_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with refused("file_cannot_be_written"):
        store.save(record())
    assert list(store.folder.iterdir()) == []


def test_files_are_their_owner_s_alone(store: Store) -> None:
    key = store.save(record())
    assert (store.folder / f"{key}.json").stat().st_mode & 0o077 == 0
    assert store.folder.stat().st_mode & 0o077 == 0


def test_what_a_run_left_is_collected_once(store: Store) -> None:
    path = store.place_for_run()
    path.write_text(record().model_dump_json())
    path.with_name(f".{path.name}.4711.tmp").write_text("half a rec")
    assert store.left_behind() == [path]
    found = store.collect(path)
    assert found is not None
    assert store.load(found[0]) == record()
    assert list(store.running.iterdir()) == []
    assert store.collect(path) is None


def test_a_run_that_wrote_nothing_useful_leaves_nothing(store: Store) -> None:
    path = store.place_for_run()
    path.write_text("{")
    assert store.collect(path) is None
    path.write_text(record(rows=[]).model_dump_json())
    assert store.collect(path) is None
    assert store.kept() == []


def test_a_run_that_cannot_be_kept_stays_where_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.place_for_run()
    path.write_text(record().model_dump_json())
    monkeypatch.setattr(stores, "MAX_KEPT", 0)
    with pytest.raises(InvalidInput):
        store.collect(path)
    assert path.exists()


def test_the_folder_is_the_operator_s_or_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_home({"HEADROOM_HOME": "/srv/x"}) == Path("/srv/x")
    monkeypatch.setenv("HOME", "/srv/somebody")
    assert default_home({}) == Path("/srv/somebody/.headroom")
    assert default_home({"HEADROOM_HOME": "  "}) == Path("/srv/somebody/.headroom")


def test_renaming_a_record_keeps_everything_else() -> None:
    before = record(calibration=CALIBRATION)
    after = renamed(before, "other")
    assert after.model_dump() | {"name": "here"} == before.model_dump() | {
        "calibration": before.model_dump()["calibration"] | {"name": "other"}
    }

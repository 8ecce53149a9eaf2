from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

import filelock
import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from pytest_specdec.errors import ModelError
from pytest_specdec.models.inflate import inflated_target, target_as_f32
from tests.unit.models.small_model import FEED_FORWARD, write_small_model

if TYPE_CHECKING:
    from pathlib import Path

WIDE = 4 * FEED_FORWARD
SPAWN = multiprocessing.get_context("spawn")


def inflate(source: Path, cache: Path, **more: Any) -> Path:
    return inflated_target(**{"feed_forward": WIDE, "source": source, "cache": cache, **more})


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.suffix in (".partial", ".gguf")]


def by_name(path: Path) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    return {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}


def test_only_zeros_are_added(small_model: Path, tmp_path: Path) -> None:
    path = inflate(small_model, tmp_path / "cache")
    before, after = by_name(small_model), by_name(path)
    assert after.keys() == before.keys()
    for name, wide in after.items():
        narrow = before[name]
        inside = tuple(slice(n) for n in narrow.shape)
        np.testing.assert_array_equal(wide[inside], narrow)
        assert np.count_nonzero(wide) == np.count_nonzero(narrow)
    assert after["blk.0.ffn_gate.weight"].shape == (WIDE, 32)
    assert after["blk.0.ffn_up.weight"].shape == (WIDE, 32)
    assert after["blk.0.ffn_down.weight"].shape == (32, WIDE)
    assert after["token_embd.weight"].shape == before["token_embd.weight"].shape


def test_the_keys_are_kept_but_for_the_width_and_the_format(small_model: Path, tmp_path: Path) -> None:
    before, after = (gguf.GGUFReader(path).fields for path in (small_model, inflate(small_model, tmp_path / "cache")))
    changed = {name for name in before if before[name].contents() != after[name].contents()}
    assert changed == {"qwen3.feed_forward_length", "general.file_type"}
    assert after["qwen3.feed_forward_length"].contents() == WIDE


def test_every_tensor_is_f32(small_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "f32.gguf"
    target_as_f32(path, small_model)
    kinds = {tensor.tensor_type for tensor in gguf.GGUFReader(path).tensors}
    assert kinds == {gguf.GGMLQuantizationType.F32}
    for name, values in by_name(small_model).items():
        np.testing.assert_array_equal(by_name(path)[name], values)


def test_it_is_made_once(small_model: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = inflate(small_model, tmp_path / "cache", progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert told == sorted(told)
    told.clear()
    assert inflate(small_model, tmp_path / "cache", progress=lambda done, total: told.append((done, total))) == path
    assert told == []


def test_another_width_and_another_source_are_other_files(small_model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = inflate(small_model, cache)
    second = inflate(small_model, cache, feed_forward=2 * WIDE)
    write_small_model(small_model, seed=1)
    third = inflate(small_model, cache)
    assert len({first, second, third}) == 3
    assert not np.array_equal(by_name(first)["output_norm.weight"], by_name(third)["output_norm.weight"])


def test_another_recipe_is_another_file(small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = inflate(small_model, tmp_path / "cache")
    monkeypatch.setattr("pytest_specdec.models.inflate.RECIPE", 2)
    assert inflate(small_model, tmp_path / "cache") != first


@pytest.mark.parametrize("damage", ["shorter", "changed", "no note", "note is no JSON"])
def test_a_damaged_file_is_made_again(small_model: Path, tmp_path: Path, damage: str) -> None:
    path = inflate(small_model, tmp_path / "cache")
    whole = path.read_bytes()
    if damage == "shorter":
        path.write_bytes(whole[:-1])
    elif damage == "changed":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "no note":
        path.with_suffix(".json").unlink()
    else:
        path.with_suffix(".json").write_text("{", encoding="utf-8")
    told: list[int] = []
    assert inflate(small_model, tmp_path / "cache", progress=lambda done, _total: told.append(done)) == path
    assert path.read_bytes() == whole
    assert told


def test_a_narrower_width_is_refused(small_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="64 wide already"):
        inflate(small_model, tmp_path / "cache", feed_forward=FEED_FORWARD - 1)
    assert leftovers(tmp_path / "cache") == []


def test_a_full_disk_is_seen_before_anything_is_written(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(ModelError, match="the disk is full") as caught:
        inflate(small_model, tmp_path / "cache")
    assert "XDG_CACHE_HOME" in caught.value.remedy
    assert leftovers(tmp_path / "cache") == []


def inflate_with_little_room(source: Path, cache: Path, answer: Any) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    try:
        inflate(source, cache)
    except ModelError as error:
        answer.put(error.why)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of a file")
def test_a_disk_that_fills_up_half_way_leaves_nothing(small_model: Path, tmp_path: Path) -> None:
    answer = SPAWN.Queue()
    child = SPAWN.Process(target=inflate_with_little_room, args=(small_model, tmp_path / "cache", answer))
    child.start()
    assert "the disk is full" in answer.get(timeout=60)
    child.join()
    assert leftovers(tmp_path / "cache") == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_explained(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_args: object, **_more: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(ModelError, match="cannot be written") as caught:
        inflate(small_model, tmp_path / "cache")
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_a_cache_below_a_file_is_explained(small_model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"NotADirectoryError|FileExistsError"):
        inflate(small_model, tmp_path / "file" / "cache")


def test_a_whole_file_in_a_read_only_cache_is_used(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = inflate(small_model, tmp_path / "cache")

    def refuse(*_args: object, **_more: object) -> NoReturn:
        raise AssertionError("locked")

    monkeypatch.setattr(filelock, "FileLock", refuse)
    assert inflate(small_model, tmp_path / "cache") == path


def test_an_interrupt_leaves_nothing(small_model: Path, tmp_path: Path) -> None:
    def interrupt(_done: int, _total: int) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inflate(small_model, tmp_path / "cache", progress=interrupt)
    assert leftovers(tmp_path / "cache") == []


def inflate_slowly(source: Path, cache: Path, started: Any, wait: float, answer: Any) -> None:
    def linger(_done: int, _total: int) -> None:
        started.set()
        time.sleep(wait)

    answer.put((str(inflate(source, cache, progress=linger)), started.is_set()))


def test_after_a_kill_the_next_one_starts_afresh(small_model: Path, tmp_path: Path) -> None:
    cache, started, answer = tmp_path / "cache", SPAWN.Event(), SPAWN.Queue()
    child = SPAWN.Process(target=inflate_slowly, args=(small_model, cache, started, 60.0, answer))
    child.start()
    assert started.wait(60)
    child.kill()
    child.join()
    half_written = leftovers(cache)
    assert len(half_written) == 1
    assert half_written[0].endswith(".partial")
    path = inflate(small_model, cache)
    assert leftovers(cache) == [path.name]


def test_of_two_processes_one_makes_it_and_the_other_waits(small_model: Path, tmp_path: Path) -> None:
    cache, answer = tmp_path / "cache", SPAWN.Queue()
    first, second = SPAWN.Event(), SPAWN.Event()
    children = [
        SPAWN.Process(target=inflate_slowly, args=(small_model, cache, e, 0.3, answer)) for e in (first, second)
    ]
    children[0].start()
    assert first.wait(60)
    children[1].start()
    answers = [answer.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    paths, made = zip(*answers, strict=True)
    assert len(set(paths)) == 1
    assert sorted(made) == [False, True]


def test_a_lock_that_is_never_given_back_is_explained(small_model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    path = inflate(small_model, cache)
    path.unlink()
    with filelock.FileLock(path.with_suffix(".lock")), pytest.raises(ModelError, match="another process has held"):
        inflate(small_model, cache, lock_timeout=0.1)

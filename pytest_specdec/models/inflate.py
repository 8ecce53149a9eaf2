"""The inflated target: the same function, but a decode step that costs memory bandwidth, as on a GPU.

The feed-forward parts of the target are widened by zero columns and everything is stored as F32. The file is made once,
in the user's cache directory, under a lock: whoever comes second waits and then uses it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.errors import ModelError
from pytest_specdec.models.family import member_path, sha256_of

if TYPE_CHECKING:
    import gguf
    import numpy as np
    import numpy.typing as npt

__all__ = ["FEED_FORWARD", "Progress", "inflated_target", "target_as_f32"]

Progress = Callable[[int, int], None]
"""Called with the bytes written so far and the bytes in all."""

RECIPE = 1  # raise it when the same source and width should give another file
FEED_FORWARD = 12288
ELSEWHERE = "set XDG_CACHE_HOME (LOCALAPPDATA on Windows) to a directory that can be written"


def inflated_target(
    *,
    feed_forward: int = FEED_FORWARD,
    source: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    lock_timeout: float = 600.0,
) -> Path:
    """The path of the inflated target, made now if the cache does not have it.

    ``source`` is the model to inflate, the family's target by default. The file is made again when the source, the
    width or the recipe is another, and when the cached one is damaged.
    """
    model = source if source is not None else member_path("target")
    directory = cache if cache is not None else _cache_directory()
    tried = f"inflate the target into {directory}"
    recipe = json.dumps([RECIPE, feed_forward, sha256_of(model)])
    path = directory / f"target-{feed_forward}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.gguf"
    if _is_whole(path):
        return path
    with _explained(tried):
        directory.mkdir(parents=True, exist_ok=True)
        with _lock(path, lock_timeout, tried):
            # The process that held the lock may have made it.
            if not _is_whole(path):
                _make(model, path, feed_forward, progress)
    return path


def target_as_f32(path: Path, source: Path | None = None) -> None:
    """Write the target as F32 at its own width: what the inflated one must agree with, token for token."""
    model = source if source is not None else member_path("target")
    with _explained(f"write {path}"):
        _write(model, path, None, lambda _done, _total: None)


def _make(model: Path, path: Path, feed_forward: int, progress: Progress | None) -> None:
    for stale in path.parent.glob(f".{path.stem}.*.partial"):
        # We hold the lock: whoever was writing this was killed.
        stale.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".partial", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        _write(model, partial, feed_forward, progress or (lambda _done, _total: None))
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        note = json.dumps({"sha256": sha256_of(partial), "size": partial.stat().st_size})
        _note(path).write_text(note, encoding="utf-8")
        # Last, so that a model that is there is whole.
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_suffix(".json")


def _is_whole(path: Path) -> bool:
    """Whether the model is there and is what was written."""
    try:
        note = json.loads(_note(path).read_text(encoding="utf-8"))
        return bool(path.stat().st_size == note["size"] and sha256_of(path) == note["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(model: Path, path: Path, feed_forward: int | None, progress: Progress) -> None:
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(model)
    arch = str(reader.fields["general.architecture"].contents())
    length_key = gguf.Keys.LLM.FEED_FORWARD_LENGTH.format(arch=arch)
    own = int(reader.fields[length_key].contents())
    wide = own if feed_forward is None else feed_forward
    if wide < own:
        raise ModelError(
            f"inflate {model}", f"its feed-forward parts are {own} wide already", f"ask for at least {own}, not {wide}"
        )
    shapes = {
        tensor.name: _widened(tensor.name, [int(n) for n in reversed(tensor.shape)], wide) for tensor in reader.tensors
    }
    total = sum(4 * int(np.prod(shape)) for shape in shapes.values())
    _room_for(total, path)

    writer = gguf.GGUFWriter(path, arch)
    _copy_keys(reader, writer, {length_key: wide, "general.file_type": int(gguf.LlamaFileType.ALL_F32)})
    for name, shape in shapes.items():
        writer.add_tensor_info(name, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        done = 0
        for tensor in reader.tensors:
            data = _as_f32(tensor)
            wider = np.zeros(shapes[tensor.name], dtype=np.float32)
            wider[tuple(slice(n) for n in data.shape)] = data
            _append(writer, wider)
            done += wider.nbytes
            progress(done, total)
    finally:
        writer.close()


def _append(writer: gguf.GGUFWriter, data: npt.NDArray[np.float32]) -> None:
    try:
        writer.write_tensor_data(data)
    except OSError as error:
        # numpy gives no errno for a short write, which is what a full disk or a limit on the size of a file looks like.
        raise OSError(error.errno or errno.ENOSPC, error.strerror or str(error)) from error


def _widened(name: str, shape: list[int], wide: int) -> list[int]:
    if name.endswith(("ffn_gate.weight", "ffn_up.weight")):
        return [wide, shape[1]]
    if name.endswith("ffn_down.weight"):
        return [shape[0], wide]
    return shape


def _as_f32(tensor: gguf.ReaderTensor) -> npt.NDArray[np.float32]:
    from gguf.quants import dequantize

    return dequantize(tensor.data, tensor.tensor_type)


def _copy_keys(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, changed: dict[str, Any]) -> None:
    import gguf

    for name, field in reader.fields.items():
        # The writer makes these itself.
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, changed.get(name, field.contents()), kind, sub_type=inner)


def _room_for(needed: int, path: Path) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed >> 20} MiB are needed and {free >> 20} MiB are free")


@contextlib.contextmanager
def _lock(path: Path, timeout: float, tried: str) -> Iterator[None]:
    import filelock

    lock = filelock.FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=timeout)
    except filelock.Timeout as error:
        raise ModelError(
            tried,
            f"another process has held {lock.lock_file} for {timeout:.0f} s",
            "wait for it to end, or end it: the lock goes with the process",
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _explained(tried: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ModelError(
                tried, f"the disk is full: {error.strerror}", f"free some space, or {ELSEWHERE}"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ModelError(tried, f"the directory cannot be written: {error.strerror}", ELSEWHERE) from error
        raise ModelError(tried, f"{type(error).__name__}: {error}", ELSEWHERE) from error


def _cache_directory() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("pytest-specdec") / "models"

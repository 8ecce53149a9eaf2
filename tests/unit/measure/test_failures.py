"""Who is to blame for a server that failed: the build, the machine, or nobody."""

from __future__ import annotations

import pytest

from pytest_specdec.errors import (
    MetricsMissingError,
    NeverReadyError,
    RequestRefusedError,
    ServerDiedError,
    ServerExitedError,
    SpecdecError,
    StreamBrokenError,
    StreamOverrunError,
    StreamStalledError,
)
from pytest_specdec.measure.failures import failure_of
from pytest_specdec.records import BASE_BUILD, Arm, CellKey, Mode, Reason, Status

KEY = CellKey(Mode.EXACT, "mixed", "dflash2")
BASE_KEY = CellKey(Mode.EXACT, "mixed", "dflash2", BASE_BUILD)
DRAFTED = Arm("dflash2", spec_types=("draft-dflash",))
PLAIN = Arm("base")
WORDS = ("tried", "why", "remedy", "the log")

UNAVAILABLE = (Status.NOT_JUDGED, Reason.ARM_UNAVAILABLE)
VOID = (Status.VOID, Reason.SERVER_FAILED)
DIED = (Status.FAIL, Reason.SERVER_DIED)


@pytest.mark.parametrize(
    ("error", "arm", "expected"),
    [
        (ServerExitedError(*WORDS, exit_code=1), DRAFTED, UNAVAILABLE),
        (ServerExitedError(*WORDS, exit_code=0), DRAFTED, UNAVAILABLE),
        (ServerExitedError(*WORDS, exit_code=255), DRAFTED, UNAVAILABLE),
        (ServerExitedError(*WORDS, exit_code=1), PLAIN, VOID),
        (NeverReadyError(*WORDS), DRAFTED, VOID),
        (ServerDiedError(*WORDS), DRAFTED, DIED),
        (RequestRefusedError(*WORDS), DRAFTED, (Status.FAIL, Reason.REQUEST_REFUSED)),
        (StreamOverrunError(*WORDS), DRAFTED, (Status.FAIL, Reason.LENGTH_DIFFERS)),
        (StreamStalledError(*WORDS), DRAFTED, (Status.VOID, Reason.SERVER_STALLED)),
        (StreamBrokenError(*WORDS), DRAFTED, (Status.VOID, Reason.STREAM_BROKEN)),
        (MetricsMissingError(*WORDS), DRAFTED, (Status.VOID, Reason.METRICS_MISSING)),
    ],
)
def test_what_a_failure_means(error: SpecdecError, arm: Arm, expected: tuple[Status, Reason]) -> None:
    failure = failure_of(KEY, arm, error)
    assert (failure.status, failure.reason) == expected
    assert "why" in failure.summary
    assert "| the log" in failure.detail


@pytest.mark.parametrize("code", [-11, 139, -6, 134, -7, 135, -4, 132, -8, 136])
@pytest.mark.parametrize("arm", [DRAFTED, PLAIN])
def test_a_server_that_crashes_while_it_loads_is_no_missing_arm(arm: Arm, code: int) -> None:
    failure = failure_of(KEY, arm, ServerExitedError(*WORDS, exit_code=code))
    assert (failure.status, failure.reason) == DIED
    assert "why: it crashed (SIG" in failure.summary


@pytest.mark.parametrize(("arm", "expected"), [(DRAFTED, UNAVAILABLE), (PLAIN, VOID)])
def test_a_base_build_that_crashes_is_not_the_new_ones_fault(arm: Arm, expected: tuple[Status, Reason]) -> None:
    failure = failure_of(BASE_KEY, arm, ServerExitedError(*WORDS, exit_code=-11))
    assert (failure.status, failure.reason) == expected


@pytest.mark.parametrize("code", [-15, 143, -2, 130])
def test_a_server_that_somebody_ended_says_nothing_of_the_build(code: int) -> None:
    failure = failure_of(KEY, DRAFTED, ServerExitedError(*WORDS, exit_code=code))
    assert (failure.status, failure.reason) == VOID


@pytest.mark.parametrize("kind", [ServerExitedError, ServerDiedError])
@pytest.mark.parametrize("code", [-9, 137])
def test_only_the_kernel_and_people_kill(kind: type[ServerExitedError | ServerDiedError], code: int) -> None:
    failure = failure_of(KEY, DRAFTED, kind(*WORDS, exit_code=code))
    assert (failure.status, failure.reason) == VOID
    assert "it was killed (SIGKILL), as when the machine's memory runs out" in failure.summary


OUT_OF_MEMORY = [
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2720.00 MiB on device 0: cudaMalloc failed: out of memory",
    "CUDA error: out of memory",
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size 2852126720",
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    "graph_reserve: failed to allocate compute buffers",
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 512.00 MB)",
    "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
    "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
    "terminate called after throwing an instance of 'std::bad_alloc'",
]


@pytest.mark.parametrize("line", OUT_OF_MEMORY)
@pytest.mark.parametrize(("kind", "code"), [(ServerExitedError, 1), (ServerExitedError, -6), (ServerDiedError, -6)])
def test_a_server_that_ended_for_want_of_memory_says_nothing_of_the_build(
    kind: type[ServerExitedError | ServerDiedError], code: int, line: str
) -> None:
    error = kind("tried", "why", "remedy", f"loading\n{line}\nexiting due to model loading error", exit_code=code)
    failure = failure_of(KEY, DRAFTED, error)
    assert (failure.status, failure.reason) == VOID
    assert f"memory ran out ({line})" in failure.summary


@pytest.mark.parametrize(
    "line",
    [
        "llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected 36, got 28",
        "ggml_backend_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: invalid argument",
        "warning: failed to mlock 1024-byte buffer (after previously locking 0 bytes): Cannot allocate memory",
        "ggml_new_object: not enough space in the context's memory pool (needed 368, available 352)",
        "decode: failed to find a memory slot for batch of size 8",
    ],
)
def test_other_words_about_memory_excuse_nothing(line: str) -> None:
    refused = failure_of(KEY, DRAFTED, ServerExitedError("tried", "why", "remedy", line, exit_code=1))
    died = failure_of(KEY, DRAFTED, ServerDiedError("tried", "why", "remedy", line, exit_code=-6))
    assert ((refused.status, refused.reason), (died.status, died.reason)) == (UNAVAILABLE, DIED)


def test_a_server_that_still_runs_may_say_that_memory_is_short() -> None:
    error = RequestRefusedError("tried", "why", "remedy", "failed to allocate a checkpoint")
    assert failure_of(KEY, DRAFTED, error).reason is Reason.REQUEST_REFUSED

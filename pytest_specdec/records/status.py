"""The words of a verdict: what it says, and why."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Reason", "Status"]


class Status(StrEnum):
    """What a verdict says."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"
    NOT_JUDGED = "not judged"


class Reason(StrEnum):
    """Why a verdict is what it is. The codes are stable: scripts and bisect read them."""

    HELD = "held"
    KNOWN_DEVIATION = "known_deviation"
    DEVIATION_GONE = "deviation_gone"
    # fail
    TOKENS_DIFFER = "tokens_differ"
    WIDTH_EXCEEDED = "width_exceeded"
    WIDTH_DIFFERS = "width_differs"
    CLAMP_UNREPORTED = "clamp_unreported"
    FLAG_IGNORED = "flag_ignored"
    BEHAVIOUR_CHANGED = "behaviour_changed"
    COUNTERS_DISAGREE = "counters_disagree"
    DRAFTER_IDLE = "drafter_idle"
    ACCEPTANCE_MOVED = "acceptance_moved"
    RECORD_MOVED = "record_moved"
    SLOWER = "slower"
    MEMORY_GREW = "memory_grew"
    BELOW_FLOOR = "below_floor"
    ARM_LOST = "arm_lost"
    SERVER_DIED = "server_died"
    REQUEST_REFUSED = "request_refused"
    LENGTH_DIFFERS = "length_differs"
    LOGPROBS_DIFFER = "logprobs_differ"
    LOGPROBS_MISSING = "logprobs_missing"
    DISTRIBUTION_DIFFERS = "distribution_differs"
    ASSERTION = "assertion"
    NOTHING_MEASURED = "nothing_measured"
    RECORD_MISSING = "record_missing"
    # inconclusive
    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"
    NO_POWER = "no_power"
    # void
    SERVER_FAILED = "server_failed"
    SERVER_STALLED = "server_stalled"
    STREAM_BROKEN = "stream_broken"
    DEVICE_FAILED = "device_failed"
    METRICS_MISSING = "metrics_missing"
    ARITHMETIC = "arithmetic"
    DEGENERATE_LOOP = "degenerate_loop"
    EARLY_STOP = "early_stop"
    TOOL_CALL = "tool_call"
    SHORT_SESSION = "short_session"
    COUNTERS_INCONSISTENT = "counters_inconsistent"
    SYNTHETIC_ACCEPTANCE = "synthetic_acceptance"
    CACHE_HIT = "cache_hit"
    TRUNCATED = "truncated"
    LENGTH_MISMATCH = "length_mismatch"
    THROTTLED = "throttled"
    HOT_START = "hot_start"
    DEVICE_SHARED = "device_shared"
    CLOCK_DRIFT = "clock_drift"
    ORDER_EFFECT = "order_effect"
    AUTOCORRELATED = "autocorrelated"
    NOISY_SESSION = "noisy_session"
    SERVER_RESTARTED = "server_restarted"
    BASELINE_MISMATCH = "baseline_mismatch"
    # not judged
    ARM_UNAVAILABLE = "arm_unavailable"
    ARM_UNKNOWN = "arm_unknown"
    ARM_NOT_ATTACHED = "arm_not_attached"
    NO_RECORD = "no_record"
    WORKLOAD_UNKNOWN = "workload_unknown"
    NOT_CONTROLLED = "not_controlled"
    NO_BASE_BUILD = "no_base_build"
    REPORTED = "reported"

"""What users have seen drafters do to a server, a reply's length and its own memory."""

import re

import pytest

from pytest_specdec.asking import CellMap, LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.errors import RequestRefusedError
from pytest_specdec.judge import Judge
from pytest_specdec.lossless import first_fork
from pytest_specdec.records import Generation, Reason

from .texts import CODE, GREEDY, GREEDY_LISTED, LONG, PROSE, REFRAIN

# One draft model per kind of drafter; arms that the profile or the build lacks are not judged.
MODEL_DRAFTERS = ["draft@8", "self", "dflash2"]
# Lookups whose table is meant to outlive requests (ngram-mod) are not asked.
KEPT_APART = ["dflash2", "dflash2+k4v", "base+k4v", "draft@16", "self"]
_BUDGETS = (1, 2, 3, 5, 8, 9, 13, 33)
_SAYS_SO = re.compile(
    r"spec[\w-]*[ -]?(type|decoding)[^\n]*\b(none|not|off|disabled|without|inactive)\b", re.IGNORECASE
)

# Forced, so that lookups have something to find whatever the model would have said.
_REFRAIN = {**GREEDY, "grammar": 'root ::= ("One for the harbor, two for the hill. ")+'}

_CYCLE = 40
_SIZE_M = 4
_LOOKUP = {
    "spec-ngram-map-k4v-size-n": 3, "spec-ngram-map-k4v-size-m": _SIZE_M, "spec-ngram-map-k4v-min-hits": 1,
}  # fmt: skip


@pytest.mark.claim("drafting.first", source="llama.cpp #23988", each=MODEL_DRAFTERS)
def test_the_first_draft_of_a_server(server: LiveArm, claim: Judge) -> None:
    reply = server.start().stream(PROSE, GREEDY)
    claim.holds(
        reply.timings.draft_n > 0 and len(reply.tokens) == GREEDY["n_predict"],
        measured=f"{len(reply.tokens)} tokens, {reply.timings.draft_n} drafted",
        expected=f"{GREEDY['n_predict']} tokens, some of them drafted",
        otherwise=Reason.DRAFTER_IDLE,
    )


@pytest.mark.claim("drafting.budget", source="upstream reports", each=["judged", "draft", "self", "base+k4v"])
def test_a_reply_is_as_long_as_its_budget(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    wrong = []
    for budget in _BUDGETS:
        reply = client.stream(CODE, {**GREEDY, "n_predict": budget})
        if not len(reply.tokens) == reply.timings.predicted_n == budget:
            wrong.append(f"{budget} asked, {reply.timings.predicted_n} counted, {len(reply.tokens)} returned")
    claim.holds(
        not wrong,
        measured=f"{len(wrong)} of {len(_BUDGETS)} budgets missed" + (f": {wrong[0]}" if wrong else ""),
        expected="tokens returned = tokens counted = n_predict",
        otherwise=Reason.LENGTH_DIFFERS,
        detail="\n".join(wrong),
    )


@pytest.mark.claim("drafting.lookup_sizes", source="llama.cpp #22414", arm="base+k4v", server_flags=_LOOKUP)
def test_the_flags_of_a_lookup_are_obeyed(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    words = client.post("/tokenize", {"content": LONG})["tokens"]
    cycle = list(dict.fromkeys(words))[:_CYCLE]
    reply = client.stream(cycle * 5, {**GREEDY, "n_predict": _CYCLE})
    drafted = reply.timings.draft_n
    claim.holds(
        drafted > 0,
        measured=f"{drafted} drafted behind a cycle of {len(cycle)} tokens",
        expected="drafts: every 3 tokens have been seen before",
        otherwise=Reason.FLAG_IGNORED,
    )
    # Every draft costs a cycle of the target, and no cycle verifies more than one draft.
    claim.holds(
        drafted <= _SIZE_M * reply.cycles,
        measured=f"{drafted} tokens drafted in at most {reply.cycles} drafts",
        expected=f"at most {_SIZE_M} in each (size-m)",
        otherwise=Reason.WIDTH_EXCEEDED,
    )


@pytest.mark.claim("drafting.after_long", source="llama.cpp #21233", each=KEPT_APART)
def test_a_short_request_after_a_long_one(server: LiveArm, claim: Judge) -> None:
    fresh, used = server.start(), server.start()
    used.stream(LONG, {**GREEDY, "n_predict": 96})
    replies = [client.stream(REFRAIN, _REFRAIN) for client in (fresh, used)]
    _alike(claim, replies, "on a fresh server and after a long request")


@pytest.mark.claim(
    "drafting.warm", source="upstream reports", each=["dflash2@16", "draft@16", "self", "base+k4v"], over="base"
)
def test_the_same_request_cold_and_warm(server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    base = server.remembered("base", lambda client: client.stream(CODE, GREEDY_LISTED, prompt_id="cold"))
    client = server.start()
    cold, *again = [client.stream(CODE, {**GREEDY, "cache_prompt": True}) for _ in range(3)]
    if cold.tokens == again[0].tokens:
        _alike(claim, [cold, *again], "cold and twice warm")
        return
    # A cached prompt's last token is computed alone, which rounds differently: that may turn a tie, and nothing else.
    for reply in (cold, again[0]):
        lossless.same_replies([base], [reply], large_batches=True)
    _alike(claim, again, "twice warm")


@pytest.mark.claim("drafting.untyped", source="llama.cpp #25345", each=["untyped"])
def test_a_draft_model_without_a_type(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    reply = client.stream(CODE, GREEDY)
    says_so = bool(_SAYS_SO.search(client.server.log()))
    claim.holds(
        reply.timings.draft_n > 0 or says_so,
        measured=f"{reply.timings.draft_n} drafted, {'a' if says_so else 'no'} word about it in the log",
        expected="drafts, or a word that there will be none",
        otherwise=Reason.FLAG_IGNORED,
    )


@pytest.mark.claim("drafting.request_n_max", source="llama.cpp #23052", each=["judged", "draft", "self"])
def test_a_request_that_wants_no_drafts(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    try:
        drafted = client.stream(CODE, {**GREEDY, "speculative.n_max": 0}).timings.draft_n
    except RequestRefusedError as refusal:
        claim.holds(True, measured=f"refused: {refusal.why[:60]}", expected="honoured or refused")
        return
    claim.holds(
        drafted == 0,
        measured=f"{drafted} drafted with speculative.n_max 0",
        expected="honoured or refused",
        otherwise=Reason.FLAG_IGNORED,
    )


@pytest.mark.claim("drafting.kv8", source="upstream reports", arms=["dflash2", "dflash2+kv8"], on="mixed")
def test_acceptance_survives_a_quantised_cache(cells: CellMap, claim: Judge) -> None:
    _survives(claim, cells["dflash2"].acceptance, cells["dflash2+kv8"].acceptance)


@pytest.mark.claim("drafting.kv8_draft", source="upstream reports", arms=["draft", "draft+kv8"], on="mixed")
def test_acceptance_of_a_draft_model_survives_a_quantised_cache(cells: CellMap, claim: Judge) -> None:
    _survives(claim, cells["draft"].acceptance, cells["draft+kv8"].acceptance)


def _survives(claim: Judge, plain: float, quantised: float) -> None:
    """Half is far below what rounding does and far above what a drafter that reads garbage reaches."""
    claim.holds(
        quantised >= plain / 2,
        measured=f"{quantised:.1%} accepted with q8_0",
        expected=f"not half of the {plain:.1%} with f16",
        otherwise=Reason.ACCEPTANCE_MOVED,
        evidence={"f16": plain, "q8_0": quantised},
    )


def _alike(claim: Judge, replies: list[Generation], how: str) -> None:
    told = [(g.timings.predicted_n, g.timings.draft_n, g.timings.draft_n_accepted) for g in replies]
    claim.holds(told[0][1] > 0, measured="no drafts", expected="drafts to compare", otherwise=Reason.DRAFTER_IDLE)
    forks = [fork for fork in (first_fork(replies[0], other) for other in replies[1:]) if fork is not None]
    claim.holds(
        not forks,
        measured=f"other tokens from {min((fork.position for fork in forks), default=0)} on",
        expected=f"the same tokens {how}",
        otherwise=Reason.TOKENS_DIFFER,
    )
    claim.holds(
        len(set(told)) == 1,
        measured="; ".join(map(str, told)) + " (predicted, drafted, accepted)",
        expected=f"the same counters {how}",
        otherwise=Reason.COUNTERS_DISAGREE,
    )

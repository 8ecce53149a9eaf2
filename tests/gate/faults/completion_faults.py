"""What can go wrong between a drafted token and the client, done to the events of a real completion.

Plain functions on decoded events, so that any proxy can use them; imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

__all__ = ["FAULTS", "Fault", "digest", "parsed"]

Event = dict[str, Any]
Events = Iterator[Event]


@dataclass(frozen=True)
class Fault:
    """What is done to a stream's events, and to an answer that is not streamed."""

    events: Callable[[Mapping[str, Any], Events], Events]
    whole: Callable[[Mapping[str, Any], Event], Event] = lambda _request, answer: answer


def digest(prompt: object) -> str:
    """A short name of a prompt, fit for a command line."""
    return sha256(str(prompt).encode()).hexdigest()[:12]


def alter_token(position: int) -> Fault:
    """One token id is another; its text stays."""
    return _at(position, lambda event, at: [_with_token(event, at, event["tokens"][at] ^ 1)])


def alter_later(position: int) -> Fault:
    """As ``alter_token``, but never in the first reply of a server: something that it remembers is wrong."""
    answered: list[object] = []
    altered = alter_token(position)

    def events(request: Mapping[str, Any], stream: Events) -> Events:
        first = not answered
        answered.append(request["prompt"])
        return stream if first else altered.events(request, stream)

    return Fault(events)


def alter_warm(position: int) -> Fault:
    """As ``alter_token``, where a slot is asked the same prompt again and may answer from its cache."""
    before: dict[object, object] = {}
    altered = alter_token(position)

    def events(request: Mapping[str, Any], stream: Events) -> Events:
        slot, prompt = request.get("id_slot"), request["prompt"]
        warm = request.get("cache_prompt", True) and before.get(slot) == prompt
        before[slot] = prompt
        return altered.events(request, stream) if warm else stream

    return Fault(events)


def keep_tokens(count: int) -> Fault:
    """A reply loses all that comes after so many tokens; its counters stay."""

    def events(_request: Mapping[str, Any], stream: Events) -> Events:
        seen = 0
        for event in stream:
            seen += len(event.get("tokens", ()))
            if seen <= count or event["stop"]:
                yield event

    return Fault(events)


def drop_token(position: int) -> Fault:
    """One event never arrives."""
    return _at(position, lambda _event, _at: [])


def force_token(position: int, token: int, prompt: str) -> Fault:
    """In replies to the prompt of that ``digest``, one token is the given one: a second choice taken for the first."""

    def events(request: Mapping[str, Any], stream: Events) -> Events:
        if digest(request["prompt"]) != prompt:
            return stream
        return _at(position, lambda event, at: [_with_token(event, at, token)]).events(request, stream)

    return Fault(events)


def swap_events(position: int) -> Fault:
    """The event with that token and the one behind it change places."""

    def events(_request: Mapping[str, Any], stream: Events) -> Events:
        seen, held = 0, None
        for event in stream:
            count = len(event.get("tokens", ()))
            if held is None and seen <= position < seen + count:
                held = event
            elif held is not None and not event["stop"]:
                yield event
                yield held
                held, seen = None, 10**9
            else:
                yield event
            seen += count

    return Fault(events)


def misreport_accepted() -> Fault:
    """The counters say one accepted token more than there was."""

    def counted(event: Event) -> Event:
        timings = event.get("timings", {})
        if not event.get("stop") or "draft_n_accepted" not in timings:
            return event
        return {**event, "timings": {**timings, "draft_n_accepted": timings["draft_n_accepted"] + 1}}

    return Fault(lambda _request, stream: map(counted, stream), lambda _request, answer: counted(answer))


def omit_logprobs() -> Fault:
    """Every second token comes without its log probabilities, as if it had been drafted."""

    def events(_request: Mapping[str, Any], stream: Events) -> Events:
        for number, event in enumerate(stream):
            yield {k: v for k, v in event.items() if k != "completion_probabilities"} if number % 2 else event

    def whole(_request: Mapping[str, Any], answer: Event) -> Event:
        rows = answer.get("completion_probabilities")
        return answer if rows is None else {**answer, "completion_probabilities": rows[::2]}

    return Fault(events, whole)


FAULTS: Mapping[str, Callable[..., Fault]] = {
    "alter_later": lambda position: alter_later(int(position)),
    "alter_token": lambda position: alter_token(int(position)),
    "alter_warm": lambda position: alter_warm(int(position)),
    "drop_token": lambda position: drop_token(int(position)),
    "force_token": lambda position, token, prompt: force_token(int(position), int(token), prompt),
    "keep_tokens": lambda count: keep_tokens(int(count)),
    "misreport_accepted": misreport_accepted,
    "omit_logprobs": omit_logprobs,
    "swap_events": lambda position: swap_events(int(position)),
}


def parsed(text: str) -> Fault:
    """``name:argument:…``, several joined by ``+``: each sees what the one before it left."""
    faults = []
    for part in text.split("+"):
        name, *arguments = part.split(":")
        faults.append(FAULTS[name](*arguments))
    whole = faults[0]
    for fault in faults[1:]:
        whole = _behind(whole, fault)
    return whole


def _behind(first: Fault, second: Fault) -> Fault:
    return replace(
        first,
        events=lambda request, stream: second.events(request, first.events(request, stream)),
        whole=lambda request, answer: second.whole(request, first.whole(request, answer)),
    )


def _at(position: int, changed: Callable[[Event, int], list[Event]]) -> Fault:
    """Change the event that carries the token at ``position``; ``changed`` also gets its place in that event."""

    def events(_request: Mapping[str, Any], stream: Events) -> Events:
        seen = 0
        for event in stream:
            count = len(event.get("tokens", ()))
            hit = seen <= position < seen + count and not event["stop"]
            yield from changed(event, position - seen) if hit else [event]
            seen += count

    return Fault(events)


def _with_token(event: Event, at: int, token: int) -> Event:
    return {**event, "tokens": [*event["tokens"][:at], token, *event["tokens"][at + 1 :]]}

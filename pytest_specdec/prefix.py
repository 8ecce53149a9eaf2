"""Where two builds part, their replies again up to that place: counters are comparable only on the same text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.errors import ClientError, ServerError
from pytest_specdec.lossless import first_fork
from pytest_specdec.measure.failures import failure_of
from pytest_specdec.parity import Builds
from pytest_specdec.records import Cell, CellKey, Generation
from pytest_specdec.server.client import Client

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["CommonPrefix", "common_lengths"]

_LEAST_TOKENS = 2  # the first comes from prefill and says nothing of a drafter


def common_lengths(builds: Builds) -> Mapping[str, int]:
    """Prompt → how many first tokens both builds share, for the prompts on which they part."""
    forks = (first_fork(before, after) for before, after in builds.pairs)
    return {fork.prompt_id: fork.position for fork in forks if fork is not None}


class CommonPrefix:
    """Asks both builds again, the whole workload in its order, since a lookup's table outlives requests."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def of(self, builds: Builds) -> Builds:
        """The same builds with replies that end where they part; as they are where all replies are the same.

        Raises CellFailedError.
        """
        lengths = common_lengths(builds)
        if not lengths:
            return builds
        before, after = (self._again(cell, lengths) for cell in (builds.before, builds.after))
        return replace(builds, before=before, after=after, cut=len(lengths))

    def _again(self, cell: Cell, lengths: Mapping[str, int]) -> Cell:
        key = replace(cell.key, workload=f"{cell.key.workload}~prefix")
        arm, stall_timeout_s = self._run.arm(key.arm), self._run.profile.stall_timeout_s
        servers = self._run.servers_of(key.build)
        try:
            with servers.running(arm, key.mode) as server, Client(server, stall_timeout_s) as client:
                return replace(cell, generations=tuple(self._generations(key, cell.key.workload, client, lengths)))
        except (ServerError, ClientError) as error:
            raise failure_of(key, arm, error) from None

    def _generations(
        self, key: CellKey, workload_name: str, client: Client, lengths: Mapping[str, int]
    ) -> Iterator[Generation]:
        workload = self._run.workload(workload_name)
        for ordinal, prompt in enumerate(workload.prompts):
            length = lengths.get(prompt.id)
            limit = {} if length is None else {"n_predict": max(length, _LEAST_TOKENS)}
            request = {**workload.request, **prompt.request, **limit}
            reply = client.generate(prompt.text, request, prompt_id=prompt.id, cell=key, ordinal=ordinal)
            self._run.ledger.append(reply)
            yield reply

"""One run's state: what is judged, with which build, against which baselines, and where the evidence goes."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.availability import FLAGS_UNKNOWN, unavailable
from pytest_specdec.baseline import (
    Baselines,
    Calibrated,
    Comparability,
    Record,
    Recording,
    chosen_folder,
    write_records,
)
from pytest_specdec.baseline import load as load_baselines
from pytest_specdec.baseline.store import refuse_packaged
from pytest_specdec.device.samples import CPU_KEY
from pytest_specdec.errors import BuildError, ModelError, SuiteError
from pytest_specdec.flags import refuse_misspelled_flags
from pytest_specdec.identity import machine_name, refuse_no_run, write_identity
from pytest_specdec.lossless import Noises
from pytest_specdec.measure.ahead import Ahead
from pytest_specdec.measure.cells import Cells
from pytest_specdec.measure.choosing import Crew, take
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.own_device import OwnDevice
from pytest_specdec.measure.rescoring import measure_noise, remembered_noise, verify_widths
from pytest_specdec.measure.servers import AttachedServers, LaunchedServers, Servers
from pytest_specdec.profile import compose
from pytest_specdec.records import (
    NEW_BUILD,
    Arm,
    CellKey,
    Claim,
    Finding,
    Mode,
    Profile,
    Settings,
    UpdateBaseline,
    Workload,
)
from pytest_specdec.server.build import Build, locate
from pytest_specdec.server.client import Client
from pytest_specdec.server.command import speculation
from pytest_specdec.workloads import load as load_workload

if TYPE_CHECKING:
    from pytest_specdec.panels import Panels
    from pytest_specdec.planning import PlanContext

__all__ = ["Run", "planned"]

BASE = "base"
NOISE_WORKLOAD = "mixed"
_MOST_SERVERS = 4


@dataclass
class Run:
    """Everything that the fixtures need. Nothing is started before the first claim asks for a cell."""

    settings: Settings
    profile: Profile
    servers: Servers
    own_device: OwnDevice
    ledger: Ledger
    baselines: Baselines
    progress: Callable[[str], None]
    claims: Sequence[Claim] = ()
    seed: int = 0
    base: LaunchedServers | None = None  # the build that the one under test is compared with
    calibrated: dict[str, Calibrated] = field(default_factory=dict)
    played: dict[Any, Any] = field(default_factory=dict)  # what live servers answered, for claims that ask alike
    _arms: dict[str, Arm] = field(default_factory=dict)
    _workloads: dict[str, Workload] = field(default_factory=dict)
    _closed: bool = False

    @classmethod
    def begin(
        cls,
        settings: Settings,
        profile: Profile,
        root: Path,
        run_dir: Path,
        claims: Sequence[Claim],
        progress: Callable[[str], None],
        waits: Callable[[str], None],
        session: str = "",
    ) -> Run:
        """Find the build and its device, check models, flags and baselines, and open the run directory.

        ``progress`` is told what is measured, ``waits`` what is waited for; ``session`` is that of pytest-xdist whose
        worker this is. Raises SpecdecError for anything that would make the run meaningless, before the first
        measurement.
        """
        if settings.resume is not None:
            refuse_no_run(settings.resume)
        folder = _baselines_folder(settings, root)
        if settings.writes_baselines and settings.baselines is None:
            refuse_packaged(folder, root)
        load_baselines(folder, profile.name, CPU_KEY)  # a folder that cannot be read is told before a build is started
        build = None if settings.server_urls else locate(settings.llama_server, launcher=settings.launcher)
        ledger = Ledger(run_dir)
        run_id = run_dir.name.replace(":", "-")  # a colon ends it in the mark that servers bear
        device = take(settings, build, _crew(claims), run_id, profile.stop_timeout_s, waits)
        ledger.device = device.identity.key
        try:
            baselines = load_baselines(folder, profile.name, device.identity.baseline_key)
            servers = _servers(settings, profile, build, ledger, progress, waits, device)
            run = cls(settings, profile, servers, device, ledger, baselines, progress, claims, _seed(settings, ledger))
            run.base = _base_servers(settings, profile, ledger, progress, device)
            run._check_what_is_needed(claims)
            write_identity(run, claims, session)
        except BaseException:
            device.close()
            raise
        return run

    @cached_property
    def cells(self) -> Cells:
        """The cells of this run."""
        return Cells(
            self.servers_of, self.ledger, self.workload, self.arm, self.profile.stall_timeout_s, self.progress,
            self.own_device,
        )  # fmt: skip

    @cached_property
    def ahead(self) -> Ahead:
        """What measures the exact cells of the selected claims while others are judged."""
        exact = [claim for claim in self.claims if claim.mode is Mode.EXACT and self.unavailable(claim) is None]
        keys = dict.fromkeys(key for claim in exact for key in claim.cells)
        ahead = Ahead(self.cells, keys, self.servers_at_once - 1, self._end_servers)
        self.cells.meanwhile = ahead.lend_a_hand
        return ahead

    @property
    def servers_at_once(self) -> int:
        """How many servers may work side by side where nothing is timed."""
        if self.settings.servers_at_once is not None:
            return self.settings.servers_at_once
        return 1 if self._one_server_only else max(1, min(_MOST_SERVERS, (os.cpu_count() or 1) // _workers()))

    @property
    def _one_server_only(self) -> str | None:
        """Why no two servers of ours may run at a time; None where they may."""
        if isinstance(self.servers, AttachedServers):
            return "attached servers are as they are"
        if self.device != CPU_KEY:
            return f"{self.device} has room, and memory to be measured, for one"
        return None

    @cached_property
    def panels(self) -> Panels:
        """The speed panels of this run."""
        from pytest_specdec.panels import Panels  # numpy comes with it, and exact claims need none

        return Panels(self, self.claims)

    @property
    def statistical_claims(self) -> int:
        """How many of the selected claims are decided by statistics."""
        return sum(claim.mode is Mode.SPEED for claim in self.claims)

    @property
    def device(self) -> str:
        """What this device's baselines are filed under."""
        return self.own_device.identity.baseline_key

    @property
    def machine(self) -> str:
        """Operating system, architecture and processor."""
        return machine_name()

    def is_other_machine(self, machine: str) -> bool:
        """Whether a speed was recorded on another machine of this device key: `cpu` is any CPU."""
        return self.device == CPU_KEY and machine != machine_name()

    def servers_of(self, build: str) -> Servers:
        """The servers of the build in that role. Raises SuiteError where the run has no base build."""
        if build == NEW_BUILD:
            return self.servers
        if self.base is None:
            raise SuiteError("starting a server of the base build", "none was given", "pass --llama-server-base")
        return self.base

    @cached_property
    def noise(self) -> Noises:
        """The numeric noise of this build on this device, measured once per run on the base's own text.

        Raises CellFailedError, ServerError or ClientError when it cannot be measured.
        """
        return remembered_noise(self.ledger, self._measure_noise)

    def _measure_noise(self) -> Noises:
        self.progress("measuring the numeric noise")
        workload, base = self.workload(NOISE_WORKLOAD), self.arm(BASE)
        replies = self.cells.get(CellKey(Mode.EXACT, workload.name, BASE)).generations
        widths = verify_widths([self.arm(name) for name in self.profile.judged_arms])
        number = self.servers_at_once
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.ahead.holding())
            # First: after Ctrl-C it then waits for threads whose servers are gone, not for all that they would ask.
            pool = stack.enter_context(ThreadPoolExecutor(number))
            servers = [stack.enter_context(self.servers.running(base, Mode.EXACT)) for _ in range(number)]
            clients = [stack.enter_context(Client(server, self.profile.stall_timeout_s)) for server in servers]
            return measure_noise(pool, clients, workload, replies, widths)

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises ProfileError."""
        if name not in self._arms:
            self._arms[name] = compose(self.profile, name)
        return self._arms[name]

    def workload(self, name: str) -> Workload:
        """The workload of that name at this profile's size. Raises ProfileError."""
        if name not in self._workloads:
            self._workloads[name] = load_workload(self.profile, name)
        return self._workloads[name]

    def unavailable(self, claim: Claim) -> Finding | None:
        """Why this claim cannot be judged here, known before anything is measured."""
        return unavailable(self, claim)

    def comparability(self, claim: Claim) -> Comparability:
        """What must be equal for a record of this claim to be comparable."""
        arms = [self.arm(name) for name in dict.fromkeys(key.arm for key in claim.cells)]
        models = dict.fromkeys(name for arm in arms for name in (arm.target, arm.drafter) if name)
        return Comparability(
            models={name: sha for name in models if (sha := self.model_sha256(name, claim.mode))},
            workloads={name: self.workload(name).sha256 for name in claim.on},
            arm=" | ".join(speculation(arm) for arm in arms if arm.drafted),
        )

    def record(self, records: Iterable[Record]) -> list[str]:
        """Write records into the baseline and return what changed."""
        provenance = {
            "build": self.servers.identity.label,
            "date": datetime.date.today().isoformat(),
            "machine": machine_name(),
            "command": f"pytest --specdec-update-baseline --specdec-profile={self.settings.profile}",
        }
        recording = Recording(
            provenance,
            only_new=self.settings.update_baseline is UpdateBaseline.NEW,
            accepted_regression=self.settings.accept_regression,
        )
        return write_records(self.baselines.path, self.profile.name, self.device, records, recording)

    def close(self) -> None:
        """Stop every server and let the device go, once. Raises ServerError for a server that cannot be stopped."""
        if self._closed:
            return
        self._closed = True
        if "ahead" in vars(self):
            self.ahead.stop()
        self._end_servers()
        self.own_device.close()

    def _end_servers(self) -> None:
        self.servers.close()
        if self.base is not None:
            self.base.close()

    def model_sha256(self, name: str, mode: Mode = Mode.EXACT) -> str | None:
        """The hash of that model's file; None for that of an attached server, which need not be here."""
        with contextlib.suppress(ModelError):
            return self.servers.model(name, mode).sha256
        return None

    def _check_what_is_needed(self, claims: Sequence[Claim]) -> None:
        """A model that is missing or a flag that nobody knows is the user's mistake and no verdict."""
        if (self.settings.servers_at_once or 1) > 1 and self._one_server_only:
            raise SuiteError(
                f"using {self.settings.servers_at_once} servers at once (--specdec-servers-at-once)",
                self._one_server_only,
                "leave the option out",
            )
        if isinstance(self.servers, AttachedServers):
            if self.settings.writes_baselines:
                raise SuiteError(
                    "recording what attached servers do (--specdec-server-url)", FLAGS_UNKNOWN,
                    "record with a build of yours: --llama-server",
                )  # fmt: skip
            self.servers.refuse_different_targets([self.arm(name) for name, _ in self.settings.server_urls])
            return
        for claim in claims:
            if self.unavailable(claim) is None:
                for key in claim.cells:
                    arm = self.arm(key.arm)
                    self.servers.model(arm.target, claim.mode)
                    if arm.drafter:
                        self.servers.model(arm.drafter, claim.mode)
        needed = {name: self.arm(name) for c in claims if self.unavailable(c) is None for name in c.involved}
        refuse_misspelled_flags(self.servers.build, self.profile, needed.values(), self.settings.arm_args)


def planned(settings: Settings, profile: Profile, root: Path, claims: Sequence[Claim]) -> PlanContext:
    """What a plan of these claims depends on. Raises BaselineError, or DeviceError."""
    from pytest_specdec.planning import PlanContext

    folder, device = _baselines_folder(settings, root), _planned_device(settings)
    return PlanContext(settings, profile, load_baselines(folder, profile.name, device), claims, device, machine_name())


def _baselines_folder(settings: Settings, root: Path) -> Path:
    return chosen_folder(settings.baselines, root, may_be_new=settings.writes_baselines)


def _planned_device(settings: Settings) -> str:
    """The baseline key of the device that a run would take; a plan needs no build, but asks one that is there."""
    build = None
    with contextlib.suppress(BuildError):
        build = None if settings.server_urls else locate(settings.llama_server, launcher=settings.launcher)
    device = take(settings, build, Crew(), "plan", 0.0, lambda _words: None)
    device.close()
    return device.identity.baseline_key


def _crew(claims: Sequence[Claim]) -> Crew:
    """The workers of pytest-xdist, of which this process is one; without it one."""
    return Crew(_workers(), any(claim.mode is Mode.SPEED for claim in claims))


def _workers() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) if "PYTEST_XDIST_WORKER" in os.environ else 1


def _seed(settings: Settings, ledger: Ledger) -> int:
    """The one asked for, else that of the run that is gone on with, else a new one."""
    if settings.seed is not None:
        return settings.seed
    known = ledger.identity.get("seed") if ledger.is_begun else None
    return int(known) if known is not None else secrets.randbelow(1 << 31)


def _servers(
    settings: Settings, profile: Profile, build: Build | None, ledger: Ledger, progress: Callable[[str], None],
    waits: Callable[[str], None], device: OwnDevice,
) -> Servers:  # fmt: skip
    if build is None:
        return AttachedServers(dict(settings.server_urls), profile, os.environ.get("LLAMA_API_KEY"), waits)
    return LaunchedServers(build, profile, ledger, settings.launcher, settings.arm_args, progress, device)


def _base_servers(
    settings: Settings, profile: Profile, ledger: Ledger, progress: Callable[[str], None], device: OwnDevice
) -> LaunchedServers | None:
    """Without --specdec-arm-args: what is tried out is tried on the build under test."""
    if settings.llama_server_base is None:
        return None
    build = locate(settings.llama_server_base, asked_by="--llama-server-base", launcher=settings.launcher)
    return LaunchedServers(build, profile, ledger, settings.launcher, (), progress, device)

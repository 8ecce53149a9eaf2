"""Gives a live server of any arm: launched from the build, or attached where the user named a URL."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property

from pytest_specdec.errors import ServerError
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.own_device import OwnDevice, Tenancy
from pytest_specdec.profile import ModelFile, resolve
from pytest_specdec.records import Arm, BuildIdentity, Capabilities, Json, Mode, Profile
from pytest_specdec.server.build import Build, build_number_of
from pytest_specdec.server.command import ModelArguments, argv, redacted
from pytest_specdec.server.environment import environment_of_run
from pytest_specdec.server.facts import build_info, target_facts
from pytest_specdec.server.process import (
    AttachedServer,
    LaunchedServer,
    LiveServer,
    Warden,
    new_api_key,
    pick_port,
    spawn,
    wait_until_ready,
)

__all__ = ["AttachedServers", "LaunchedServers", "Servers"]

_PORT_BY_HAND = 8080
_NO_KEY = "none"


class LaunchedServers:
    """Servers that we start from one build and end again."""

    def __init__(
        self,
        build: Build,
        profile: Profile,
        ledger: Ledger,
        launcher: Sequence[str] = (),
        arm_args: Sequence[str] = (),
        progress: Callable[[str], None] | None = None,
        device: OwnDevice | None = None,
    ) -> None:
        self.build = build
        self._profile = profile
        self._ledger = ledger
        self._launcher = launcher
        self._arm_args = arm_args
        self._progress = progress or (lambda _words: None)
        self._device = device
        self._models: dict[str, ModelFile] = {}
        self._running: list[LaunchedServer] = []
        self._warden: Warden | None = None
        self._starting = threading.Lock()

    @property
    def identity(self) -> BuildIdentity:
        """Which build."""
        return self.build.identity

    def attached(self, arm: Arm) -> bool:
        """Never: these are ours."""
        return False

    def unknown_flags(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> list[str]:
        """Flags that this arm needs and the build's ``--help`` does not list."""
        words = self._arguments(arm, mode, 0, "", extra_flags)[len(self._launcher) + len(self.build.command) :]
        return _missing(words, self.build.capabilities)

    def flags_of(self, arm: Arm) -> tuple[str, ...]:
        """What its speculation is run with beyond the profile's server flags."""
        return (*arm.flags, *self._arm_args) if arm.drafted else ()

    def model(self, name: str, mode: Mode = Mode.EXACT) -> ModelFile:
        """One model of the profile, checked once. Raises ModelError."""
        reference = model_reference(self._profile, name, mode)
        if reference not in self._models:
            self._models[reference] = resolve(name, reference, self._profile.origin, self._progress)
        return self._models[reference]

    @contextmanager
    def running(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> Iterator[LiveServer]:
        """A ready server of ``arm``, stopped at the end. Raises ServerError, or DeviceError for its device."""
        hosting = self._device.hosting() if self._device is not None else nullcontext(Tenancy(None))
        with hosting as tenancy:
            server = self._start(arm, mode, extra_flags)
            try:
                wait_until_ready(server, self._profile.ready_timeout_s, "starting " + " ".join(server.arguments))
                tenancy.watch(server)
                yield server
            finally:
                server.stop()
                self._forget(server)

    def by_hand(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> str:
        """A command that a person can paste to get the same server, on port 8080 and without a key."""
        words = self._arguments(arm, mode, _PORT_BY_HAND, _NO_KEY, extra_flags)
        at = words.index("--api-key")
        return shlex.join([*words[:at], *words[at + 2 :]])

    def close(self) -> None:
        """End whatever still runs, also what another thread has started."""
        for server in list(self._running):
            server.stop()
            self._forget(server)
        if self._warden is not None:
            self._warden.close()
            self._warden = None

    def _forget(self, server: LaunchedServer) -> None:
        with suppress(ValueError):  # two threads may have stopped it
            self._running.remove(server)

    def _start(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None) -> LaunchedServer:
        port, api_key = pick_port(), new_api_key()
        with self._starting:
            if self._warden is None:
                self._warden = Warden()
            warden = self._warden
        server = spawn(
            self._arguments(arm, mode, port, api_key, extra_flags),
            arm=arm.name,
            port=port,
            api_key=api_key,
            environment=self._environment(),
            log_path=self._ledger.log_path(f"{mode}-{arm.name}"),
            stop_timeout_s=self._profile.stop_timeout_s,
            warden=warden,
        )
        self._running.append(server)
        return server

    def _environment(self) -> dict[str, str]:
        kept = environment_of_run(os.environ, self._ledger.directory.name)
        return kept | dict(self._device.environment) if self._device is not None else kept

    def arguments(self, arm: Arm, mode: Mode) -> tuple[str, ...]:
        """The command line for eyes and files, without port and key."""
        return redacted(self._arguments(arm, mode, 0, "key", None), "key")

    def _arguments(
        self, arm: Arm, mode: Mode, port: int, api_key: str, extra_flags: Mapping[str, Json] | None
    ) -> tuple[str, ...]:
        target = self.model(arm.target, mode)
        drafter = self.model(arm.drafter, mode) if arm.drafter else None
        models = ModelArguments(
            target=target.hub or str(target.path),
            target_is_hub=target.hub is not None,
            drafter=(drafter.hub or str(drafter.path)) if drafter else None,
            drafter_is_hub=drafter is not None and drafter.hub is not None,
        )
        return argv(
            self.build.command,
            self._profile,
            arm,
            mode,
            models,
            port,
            api_key,
            launcher=self._launcher,
            extra_flags=extra_flags,
            arm_args=self._arm_args,
        )


class AttachedServers:
    """Servers that somebody else runs, one URL per arm."""

    def __init__(
        self,
        urls: Mapping[str, str],
        profile: Profile,
        api_key: str | None,
        waits: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._urls = urls
        self._profile = profile
        self._api_key = api_key
        self._waits = waits
        self._models: dict[str, ModelFile] = {}

    @cached_property
    def identity(self) -> BuildIdentity:
        """What the first of the servers says of itself. Raises ServerError when it cannot be reached."""
        words = build_info(self._ready(next(iter(self._urls))))
        number = build_number_of(words)
        shown = ", ".join(f"{arm}={url}" for arm, url in self._urls.items())
        return BuildIdentity("url", shown, number, None, words, "asked for by --specdec-server-url")

    def model(self, name: str, mode: Mode = Mode.EXACT) -> ModelFile:
        """The model as the profile declares it; what the server really loaded cannot be seen from here."""
        reference = model_reference(self._profile, name, mode)
        if reference not in self._models:
            self._models[reference] = resolve(name, reference, self._profile.origin)
        return self._models[reference]

    def attached(self, arm: Arm) -> bool:
        """Whether the user gave a URL for this arm."""
        return arm.name in self._urls

    def unknown_flags(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> list[str]:
        """Not ours to know."""
        return []

    def flags_of(self, arm: Arm) -> tuple[str, ...]:
        """What the profile says: what the server really runs with is its owner's business."""
        return tuple(arm.flags)

    @contextmanager
    def running(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> Iterator[LiveServer]:
        """The server of ``arm`` once it is healthy. Raises ServerError."""
        if extra_flags:
            raise ServerError(
                f"using the attached server of arm {arm.name}",
                f"this claim needs it started with {dict(extra_flags)}",
                "run this claim against a build with --llama-server",
            )
        if not self.attached(arm):
            raise ServerError(
                f"using the attached server of arm {arm.name}",
                f"none was given; attached are {', '.join(self._urls)}",
                f"--specdec-server-url={arm.name}=URL",
            )
        yield self._ready(arm.name)

    def refuse_different_targets(self, arms: Iterable[Arm]) -> None:
        """Raises ServerError where servers whose arms have one target serve different models, or do not answer.

        What they say of a model are its sizes: two of the same sizes cannot be told apart from here.
        """
        first_of: dict[str, tuple[str, Mapping[str, Json]]] = {}
        for arm in arms:
            server = self._ready(arm.name)
            build_info(server)  # one that wants another key, or is no llama-server, is told of now too
            now = target_facts(server)
            first, before = first_of.setdefault(arm.target, (arm.name, now))
            differing = [f"{name} {before[name]} and {now[name]}" for name in before if before[name] != now.get(name)]
            if now and differing:
                raise ServerError(
                    f"comparing the attached servers of {first} and {arm.name}",
                    f"the servers of {first} and {arm.name} serve different models: {', '.join(differing)}",
                    "start both with the same --model, or correct the URLs",
                )

    def _ready(self, name: str) -> AttachedServer:
        server = AttachedServer(name, self._urls[name], self._api_key)
        tried = f"reaching {server.url} (arm {name})"
        wait_until_ready(server, self._profile.ready_timeout_s, tried, self._waits)
        return server

    def by_hand(self, arm: Arm, mode: Mode, extra_flags: Mapping[str, Json] | None = None) -> str:
        """Where it listens: how it was started is its owner's to know."""
        return f"# the server of arm {arm.name} at {self._urls.get(arm.name)}"

    def close(self) -> None:
        """They go on without us."""


Servers = LaunchedServers | AttachedServers


def model_reference(profile: Profile, name: str, mode: Mode) -> str:
    """What the profile says of a model: speed panels may have another of that name. Raises KeyError."""
    return profile.speed.models.get(name, profile.models[name]) if mode is Mode.SPEED else profile.models[name]


def _missing(words: Sequence[str], capabilities: Capabilities) -> list[str]:
    return [word for word in words if word.startswith("--") and word not in capabilities.flags]

"""A site's own memory: releases, the state file, the journal; every file is whole or not there."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b70ctl.core import journal
from b70ctl.core.journal import Book, Event, Line, Op
from b70ctl.core.plan import Plan
from b70ctl.core.release import Release, State, Verdict, number_of
from b70ctl.edge.files import append, entries, now, read_text, replace, sweep, sync, sync_tree, unwritable
from b70ctl.edge.records import parsed, read, readable
from b70ctl.errors import MachineError, Refused

PARTIAL = ".partial-"
SCRATCH = ".check-"
NAMED = re.compile(r"[0-9]{4,}-[a-z0-9-]*")
"""What a release's folder is called."""
PROVEN_LOG = "engine.log"
FAILED_LOG = "failed.log"


@dataclass(frozen=True, slots=True)
class Store:
    """What lies under `.b70ctl` of one site; reading makes nothing, not even the folder."""

    folder: Path

    @property
    def lock_file(self) -> Path:
        """The site's lock."""
        return self.folder / "lock"

    @property
    def journal_file(self) -> Path:
        """The journal."""
        return self.folder / "journal.jsonl"

    @property
    def watch_lock_file(self) -> Path:
        """Held by the one watch of a site, beside the site's own lock, which it takes only to act."""
        return self.folder / "watch.lock"

    @property
    def incidents(self) -> Path:
        """The folders that a watch captured."""
        return self.folder / "incidents"

    @property
    def rates_file(self) -> Path:
        """How fast each release decoded when it was new."""
        return self.folder / "rates.json"

    def release_folder(self, release: str) -> Path:
        """Where a release lies."""
        return self.folder / "releases" / release

    # -- state ------------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """What the site serves."""
        raw = read_text(self.folder / "state.json")
        return parsed(State, raw, self.folder / "state.json") if raw is not None else self._rebuilt()

    def _rebuilt(self) -> State:
        """What can be told of the state without its file, as after it was moved out of the way."""
        kept = self.releases()
        served = [name for name in self.served() if name in kept]
        return State(serving=served[-1] if served else None)

    def next_number(self) -> int:
        """A number that no release has or had, also where the state file was lost or a release cannot be read."""
        names = [step.subject for op in self.ops() for step in op.plan.steps]
        names += [path.name.removeprefix(PARTIAL) for path in entries(self.folder / "releases")]
        return max([self.state().next, *(number_of(name) + 1 for name in names)])

    def save_state(self, state: State) -> None:
        """Replace the state file."""
        _still_there(self.folder)
        replace(self.folder / "state.json", state.model_dump_json(indent=1))

    def salt(self) -> str:
        """What hashes of secrets are salted with; empty before the first change."""
        return read_text(self.folder / "salt") or ""

    def ensure_salt(self) -> None:
        """Make the salt, once."""
        if not self.salt():
            replace(self.folder / "salt", secrets.token_hex(32), mode=0o600)

    # -- releases ---------------------------------------------------------------------------------------------------

    def releases(self) -> dict[str, Release]:
        """Every whole release, oldest first."""
        # one that cannot be read is told by `release`, and is in nobody's way here
        found = [release for release in self._folders().values() if release is not None]
        return {release.id: release for release in sorted(found, key=lambda each: each.number)}

    def unread(self) -> list[str]:
        """Folders that are called like releases, and cannot be read as such."""
        return sorted(name for name, release in self._folders().items() if release is None and NAMED.fullmatch(name))

    def _folders(self) -> dict[str, Release | None]:
        found: dict[str, Release | None] = {}
        for path in entries(self.folder / "releases"):
            if not path.name.startswith(PARTIAL):
                raw = read_text(path / "release.json")
                found[path.name] = read(raw) if raw is not None else None
        return found

    def release(self, name: str) -> Release:
        """One release."""
        raw = read_text(self.release_folder(name) / "release.json")
        if raw is None:
            raise Refused(f"release {name} is not in {self.folder / 'releases'}", hint="b70ctl history")
        return parsed(Release, raw, self.release_folder(name) / "release.json")

    @contextlib.contextmanager
    def writing(self, release: Release) -> Iterator[Path]:
        """A folder to fill, which becomes the release's own in one step when the block ends without error.

        Refused where its record would not be read again as it is: nobody could go back to such a release.
        """
        final = self.release_folder(release.id)
        partial = final.with_name(PARTIAL + final.name)
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            yield partial
            record = readable(release)
            replace(partial / "deployment.json", release.deployment.canonical())
            replace(partial / "release.json", record)
            sync_tree(partial)
            partial.rename(final)
            sync(final.parent)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError):
                raise unwritable(final, error) from error
            raise

    def forget(self, release: str) -> None:
        """Remove a release's folder; half-removed it is not a release any more."""
        final = self.release_folder(release)
        partial = final.with_name(PARTIAL + final.name)
        with contextlib.suppress(FileNotFoundError):
            final.rename(partial)
        shutil.rmtree(partial, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what a cut-off command left half written."""
        sweep(self.folder)
        sweep(self.folder / "images")
        for path in entries(self.folder / "releases"):
            if path.name.startswith(PARTIAL):
                shutil.rmtree(path, ignore_errors=True)
            else:
                sweep(path)
        for path in self.folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(path, ignore_errors=True)

    def verdict(self, release: str) -> Verdict | None:
        """What became of a release, when it was ever started."""
        raw = read_text(self.release_folder(release) / "verdict.json")
        return parsed(Verdict, raw, self.release_folder(release) / "verdict.json") if raw is not None else None

    def save_verdict(self, release: str, verdict: Verdict) -> None:
        """Record what became of a release."""
        _still_there(self.release_folder(release))
        replace(self.release_folder(release) / "verdict.json", verdict.model_dump_json(indent=1))

    def keep_log(self, release: str, name: str, text: str) -> None:
        """Keep the engine's log with its release."""
        _still_there(self.release_folder(release))
        replace(self.release_folder(release) / name, text)

    # -- journal ----------------------------------------------------------------------------------------------------

    def ops(self) -> list[Op]:
        """Every command that changed something, oldest first."""
        return journal.ops(self.book().lines)

    def book(self) -> Book:
        """The journal, line by line."""
        return journal.parse(read_text(self.journal_file) or "")

    def served(self) -> list[str]:
        """Releases in the order in which they came to serve; an adopted one came before the switch that replaced it."""
        names: list[str] = []
        for op in self.ops():
            if op.plan.wanted and op.end and op.end.result in ("done", "finished"):
                pair = (op.plan.incumbent, op.plan.wanted)
                names += [name for name in pair if name and name not in names[-1:]]
        return names

    def begin(self, plan: Plan, by: str) -> Journal:
        """Open the journal for one command."""
        book = Journal(self, self.book().next_op)
        book.write(Event.BEGIN, plan=plan, by=by)
        return book


@dataclass(frozen=True, slots=True)
class Journal:
    """One command's lines."""

    store: Store
    op: int

    def write(self, event: Event, **fields: Any) -> None:
        """Append one line and make sure that it is on the disk."""
        if event is not Event.BEGIN:
            _still_there(self.store.folder)
        line = Line(op=self.op, at=now(), event=event, **fields)
        append(self.store.journal_file, line.model_dump_json(exclude_none=True))


def _still_there(folder: Path) -> None:
    """Raise for a folder that somebody took away: a memory that begins anew would be worth less than none."""
    if not folder.is_dir():
        raise MachineError(f"{folder} is gone: it was removed while this command was at work", hint="docker ps --all")

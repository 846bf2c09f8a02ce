"""Profiles, templates and patches by name: a site's own over the shipped ones."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from b70ctl.core.image import ImageFacts
from b70ctl.core.inherit import inherit, lineage, override
from b70ctl.core.patch import Patch
from b70ctl.core.profile import Profile
from b70ctl.core.site import Site
from b70ctl.core.strict import NAME
from b70ctl.edge import places, yamlfile
from b70ctl.edge.files import entries, read_bytes
from b70ctl.edge.sitefiles import is_file, is_folder, lies_in
from b70ctl.edge.yamlfile import Document
from b70ctl.errors import UsageError, to_type

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile's file and whose it is."""

    name: str
    path: Path
    origin: str
    """`site` or `shipped`."""


@dataclass(frozen=True, slots=True)
class Written:
    """A profile as it was written: merged, checked, and where each part came from."""

    name: str
    origin: str
    lineage: tuple[str, ...]
    raw: dict[str, Any]
    profile: Profile
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that can be named at a site; `root` is None where there is none."""

    root: Path | None
    site: Site

    def folders(self, kind: str) -> list[tuple[str, Path]]:
        """Where things of a kind are looked for, in order; UsageError for a site's folder of them that is none."""
        own = [("site", self.root / kind)] if self.root else []
        for _, folder in own:
            is_folder(folder)
        return [*own, ("shipped", places.shipped(kind))]

    def profiles(self) -> list[Entry]:
        """Every profile that may be named, parents under `_base` not among them."""
        found: dict[str, Entry] = {}
        for origin, folder in self.folders("profiles"):
            for path in (path for path in entries(folder) if path.suffix == ".yaml"):
                found.setdefault(path.stem, Entry(path.stem, path, origin))
        return sorted(found.values(), key=lambda entry: entry.name)

    def entry(self, name: str, *, parents: bool = False) -> Entry:
        """The file of a profile; UsageError names every place that was tried and what is close."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{_shown(name)} cannot be a profile's name", hint="b70ctl profiles list")
        tried = []
        for origin, folder in self.folders("profiles"):
            for directory in (folder, folder / "_base") if parents else (folder,):
                path = directory / f"{name}.yaml"
                if is_file(path):
                    return Entry(name, path, origin)
                tried.append(str(path))
        near = difflib.get_close_matches(name, [entry.name for entry in self.profiles()], n=3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"there is no profile `{name}`{meant or ';'} tried {', '.join(tried)}",
                         hint="b70ctl profiles list")  # fmt: skip

    def profile(self, name: str, sets: Sequence[str] = ()) -> Written:
        """A profile with its parents, the site's defaults and `--set` merged, and checked."""
        documents: dict[str, Document] = {}

        def read(wanted: str) -> Mapping[str, Any]:
            documents[wanted] = yamlfile.read(self.entry(wanted, parents=True).path)
            return documents[wanted].data

        entry = self.entry(name)
        chain = lineage(name, read)
        raw = inherit(chain, self.site.defaults)
        for path, value in map(_assignment, sets):
            raw = override(raw, path, value)
        given = [Document(f"--set {text}", {}, {tuple(_assignment(text)[0].split(".")): 0}) for text in reversed(sets)]
        newest_first = [*given, *(documents[ancestor] for ancestor, _ in reversed(chain))]
        profile = checked(Profile, raw, newest_first)
        return Written(name, entry.origin, tuple(each for each, _ in chain), raw, profile, tuple(sets))

    def template(self, name: str) -> tuple[str, str]:
        """A Compose template's text, and whose it is."""
        for origin, folder in self.folders("templates"):
            path = folder / f"{name}.compose.yaml.j2"
            if is_file(path):
                return _text(path), origin
        raise UsageError(f"there is no template `{name}`", hint=to_type("ls", places.shipped("templates")))

    def patch(self, name: str) -> Patch:
        """A patch by name."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{_shown(name)} cannot be a patch's name", hint="b70ctl patches list")
        for _, folder in self.folders("patches"):
            path = folder / name / "patch.yaml"
            if is_file(path):
                document = yamlfile.read(path)
                if not document.data:
                    raise UsageError(f"{path} is empty", hint=f"b70ctl patches new my-{name}")
                return checked(Patch, document.data, [document])
        known = ", ".join(self.patches()) or "none"
        raise UsageError(f"there is no patch `{name}`; there are {known}", hint="b70ctl patches list")

    def patches(self) -> list[str]:
        """Names of all patches."""
        return sorted({folder.name for folder in self._patch_folders() if NAME.fullmatch(folder.name)})

    def misnamed_patches(self) -> list[Path]:
        """Folders that hold a patch under what cannot be a patch's name, so that nothing can ask for it."""
        return sorted(folder for folder in self._patch_folders() if not NAME.fullmatch(folder.name))

    def _patch_folders(self) -> list[Path]:
        listed = [path for _, folder in self.folders("patches") for path in entries(folder)]
        return [path for path in listed if lies_in(path, "patch.yaml")]

    def images(self) -> list[ImageFacts]:
        """The shipped catalog of known images."""
        document = yamlfile.read(places.data("images.yaml"))
        return [checked(ImageFacts, item, [document], ("images", number), strict=False)
                for number, item in enumerate(document.data["images"])]  # fmt: skip

    def flags(self) -> dict[str, Any]:
        """The shipped table of vLLM's flags by version."""
        table: dict[str, Any] = json.loads(places.data("vllm-flags.json").read_text(encoding="utf-8"))
        return table


def _text(path: Path) -> str:
    try:
        return read_bytes(path, yamlfile.MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
                         hint=to_type("ls", "-l", path)) from error  # fmt: skip


def open_catalog(root: Path | None) -> Catalog:
    """The catalog of a site, or of what is shipped where there is no site."""
    if root is None:
        return Catalog(None, Site())
    document = yamlfile.read(root / places.SITE_FILE)
    site = checked(Site, document.data, [document])
    homes = {key: str(places.expanded(path)) for key in ("models", "hf_cache") if (path := getattr(site, key))}
    return Catalog(root, site.model_copy(update=homes))


def checked(
    model: type[Model], raw: Mapping[str, Any], documents: Sequence[Document], prefix: tuple[str | int, ...] = (),
    *, strict: bool | None = None,
) -> Model:  # fmt: skip
    """`raw` as a model; UsageError with file, line and a suggestion for the first fault."""
    try:
        return model.model_validate(raw, strict=strict)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # a key that does not exist tells why the one that should is missing
        first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
        hint = getattr(first.get("ctx", {}).get("error"), "hint", None)
        raise UsageError(_fault(model, first, documents, prefix, len(faults)), hint=hint) from None


def _fault(
    model: type[BaseModel], fault: Any, documents: Sequence[Document], prefix: tuple[str | int, ...], count: int
) -> str:  # fmt: skip
    location = _spoken(fault["loc"])
    path = (*prefix, *location)
    key = ".".join(map(str, location))
    match fault["type"]:
        case "extra_forbidden":
            said = f"there is no key `{key}`{_near(model, location)}"
        case "missing":
            said = f"`{key}` is missing"
        case "value_error":
            said = f"`{key}`: {fault['ctx']['error']}" if key else str(fault["ctx"]["error"])
        case _:
            said = f"`{key}`: {fault['msg'][0].lower()}{fault['msg'][1:]}, not {_shown(fault['input'])}"
    more = f" (and {count - 1} more)" if count > 1 else ""
    if not documents:
        return f"{said}{more}"
    # the file that speaks of the value most closely; of several the newest, and a `--set` only of its own value
    depths = [(document.depth(path), document.depth(path) > 0 or () in document.lines) for document in documents]
    closest = documents[depths.index(max(depths))]
    return f"{closest.at(path)}: {said}{more}"


def _spoken(location: Sequence[str | int]) -> tuple[str | int, ...]:
    # pydantic names the branch of a union as if it were a key
    return tuple(item for item in location if not (isinstance(item, str) and (item in _BRANCHES or "[" in item)))


_BRANCHES = {"str", "int", "bool", "float", "constrained-str", "constrained-int"}


def _near(model: type[BaseModel], location: Sequence[str | int]) -> str:
    fields: Any = model
    for item in location[:-1]:
        annotation = fields.model_fields[item].annotation if item in getattr(fields, "model_fields", {}) else None
        options = [annotation, *getattr(annotation, "__args__", ())]
        fields = next((each for each in options if isinstance(each, type) and issubclass(each, BaseModel)), None)
        if fields is None:
            return ""
    near = difflib.get_close_matches(str(location[-1]), list(fields.model_fields), n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(fields.model_fields)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _assignment(text: str) -> tuple[str, Any]:
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(f"`--set {text}` is not key=value",
                         hint="b70ctl render PROFILE --set engine.max_model_len=131072")  # fmt: skip
    return path.strip(), yamlfile.value(value)

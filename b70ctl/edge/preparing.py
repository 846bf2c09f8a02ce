"""From a profile's name to a deployment, and to everything that its release will hold."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from b70ctl.core import compose
from b70ctl.core.deployment import Deployment
from b70ctl.core.draft import Reach, cached, config_file, draft_of
from b70ctl.core.host import Host
from b70ctl.core.image import ImageFacts, check_reference, same_version
from b70ctl.core.patch import Patch, refuse_unless_meant_for
from b70ctl.core.place import Place
from b70ctl.core.plugin import Kernels, label, searched
from b70ctl.core.release import Release, release_id
from b70ctl.core.resolve import Request, refuse_status, resolve
from b70ctl.edge import draft, filling, plugin, secretfiles, yamlfile
from b70ctl.edge.catalog import Catalog, Written
from b70ctl.edge.files import now
from b70ctl.edge.hardware import read_host
from b70ctl.edge.imagefacts import digest_of, kept_facts, last_told, probe_image
from b70ctl.edge.sitelock import SiteLock, read_lock
from b70ctl.edge.store import Store
from b70ctl.errors import Refused, UsageError, to_type

if TYPE_CHECKING:  # rendering must not pay for Docker
    from b70ctl.edge.composer import Composer
    from b70ctl.edge.daemon import Daemon


@dataclass(frozen=True, slots=True)
class Wanted:
    """A profile on its way to run."""

    written: Written
    deployment: Deployment
    facts: ImageFacts
    patches: dict[str, Patch]
    kernels: Kernels | None = None


@dataclass(frozen=True)
class Workshop:
    """Where profiles become releases; without a daemon it knows the catalog, and what images have said here before."""

    catalog: Catalog
    folder: Path
    daemon: Daemon | None = None

    @cached_property
    def host(self) -> Host:
        """The box's cards."""
        return read_host(Path(self.catalog.site.dri))

    @cached_property
    def lock(self) -> SiteLock:
        """The site's lock file."""
        return read_lock(self.catalog.root)

    @cached_property
    def known_images(self) -> list[ImageFacts]:
        """The shipped catalog of images."""
        return self.catalog.images()

    @property
    def place(self) -> Place:
        """The site and the box, for resolving."""
        root = self.catalog.root or Path.cwd()
        return Place(site=self.catalog.site, root=str(root), host=self.host)

    def wanted(
        self, name: str, sets: Sequence[str] = (), *, port: int | None = None, allow_status: str | None = None,
        probe: bool = False, any_status: bool = False,
    ) -> Wanted:  # fmt: skip
        """A profile resolved for this site; with `probe` an image that was never asked is asked now.

        With `any_status` a rejected one is resolved like any other, as for rendering all of them.
        """
        written = self.catalog.profile(name, sets)
        request = Request(
            name=name, profile=written.profile, overrides=tuple(sets), allow_status=allow_status, port=port
        )
        if not any_status:
            refuse_status(request)
        patches, facts = self.patched(written, probe=probe)
        kernels = self.kernels(written, facts)
        deployment = resolve(request, self.place_of(written), facts, patches, kernels)
        learnt: dict[str, Any] = {}
        if limit := self.reach(written).limit:
            learnt["draft_limit"] = limit
        if self.daemon is not None and self.catalog.root is not None:
            hidden = secretfiles.read_secrets(self.catalog.site, self.catalog.root)
            learnt["contents"] = filling.fingerprints(deployment, hidden, Store(self.folder).salt())
            learnt["kernels"] = label(kernels.name, kernels.digest) if kernels else None
        return Wanted(written, deployment.model_copy(update=learnt), facts, patches, kernels)

    def kernels(self, written: Written, facts: ImageFacts) -> Kernels | None:
        """The kernels that a profile's release carries, and what of the profile's own would hide them."""
        if written.profile.kernels != "b70":
            return None
        root, looking = self.catalog.root, self.daemon is None
        hidden = secretfiles.secret_files(self.catalog.site, root, looking=looking) if root else {}
        found = plugin.described(root, hidden)
        folders = searched(written.profile, (facts.pythonpath, facts.site_packages), self.place)
        rivals = dict.fromkeys(entry for entry, folder in folders if plugin.holds(Path(folder)))
        archives = dict.fromkeys(entry for entry, folder in folders if plugin.is_archive(Path(folder)))
        return replace(found, rivals=tuple(rivals), archives=tuple(archives))

    def patched(self, written: Written, *, probe: bool = False) -> tuple[dict[str, Patch], ImageFacts]:
        """A profile's patches and what is known of its image; Refused when one is not meant for the other."""
        patches = {patch: self.catalog.patch(patch) for patch in written.profile.patches}
        facts = self.facts(written, patches, probe=probe)
        for name, patch in patches.items():
            refuse_unless_meant_for(name, patch, facts)
        return patches, facts

    def place_of(self, written: Written) -> Place:
        """The site and the box, with what the profile's hub draft stands for in the site's cache."""
        found = draft_of(written.profile)
        if found is None or found.hub is None or self.catalog.site.hf_cache is None:
            return self.place
        commit = draft.commit(Path(cached(found.hub, self.place)), found.revision)
        return replace(self.place, draft_commit=commit)

    def reach(self, written: Written) -> Reach:
        """How far a profile's draft reaches, where its config is on this host."""
        file = self.draft_config(written)
        return draft.reach(file) if file else Reach()

    def draft_config(self, written: Written) -> Path | None:
        """Where the config of a profile's draft is on this host, or would be; None where nothing says so."""
        found, site = draft_of(written.profile), self.catalog.site
        if found is None or (site.models if found.path else site.hf_cache) is None:
            return None
        file = config_file(found, self.place_of(written))
        return Path(file) if file else None

    def facts(self, written: Written, patches: dict[str, Patch], *, probe: bool) -> ImageFacts:
        """What is known of the profile's image: from itself, else the catalog, else what the profile expects.

        Without a daemon, what an image of that name said before goes before what the profile expects, if it has the
        vLLM that the profile expects: a name may mean another image since.
        """
        spec = written.profile.image
        pin = self.lock.images.get(spec.ref)
        ref = pin.identity if pin else check_reference(spec.ref)
        files = {file for patch in patches.values() for file in patch.judged}
        about = self.daemon.image(ref) if self.daemon else None
        if about is not None and self.daemon is not None:
            found = kept_facts(self.folder, about, ref, files)
            if found is None and probe:
                found = probe_image(self.daemon, ref, files, self.folder)
            if found is not None:
                return found.model_copy(update={"digest": pin.identity}) if pin and "@" in pin.identity else found
        # which image it is can be told without asking what it holds
        seen = {"id": about["Id"], "digest": digest_of(about, ref)} if about else {}
        pinned = {"ref": spec.ref, "digest": pin.identity} if pin else {}
        for facts in self.known_images:
            if ref in (facts.ref, facts.digest) or spec.ref in (facts.ref, facts.digest):
                return facts.model_copy(update=seen | pinned)
        told = last_told(self.folder, ref) if self.daemon is None else None
        if told and same_version(spec.vllm, told.vllm):
            # which image the name means today is Docker's to say, so that what was asked then is not named
            return told.model_copy(update={"ref": ref, "id": None, "digest": None} | pinned)
        return ImageFacts(ref=ref, vllm=spec.vllm, source="assumed").model_copy(update=seen)

    def text(self, deployment: Deployment, release: str, key: str, root: str = "") -> str:
        """The release's Compose text, read back and compared with what it must say."""
        template, origin = self.catalog.template(deployment.template)
        wanted = compose.document(deployment, release, key, root)
        text = compose.render(template, wanted)
        try:
            found = compose.literal(yamlfile.parse(text, f"the rendered {deployment.template} template").data)
        except UsageError as error:
            raise UsageError(f"{error.what} ({origin} template)") from error
        faults = compose.missing(wanted, found)
        if origin == "shipped" and not faults:
            faults = compose.missing(found, wanted)
        if faults:
            raise UsageError(f"template `{deployment.template}` ({origin}) does not say what was decided: {faults[0]}")
        return text

    def prepare(self, wanted: Wanted, number: int, command: str) -> filling.Prepared:
        """Everything that the new release will hold; the image, the draft and the scripts are read here."""
        daemon = self.daemon
        if daemon is None or self.catalog.root is None:
            raise UsageError("a release belongs to a site", hint="b70ctl init")
        deployment = wanted.deployment
        about = daemon.image(deployment.image)
        if about is None:
            raise Refused(f"Docker does not have the image {deployment.image}",
                          hint=to_type("docker", "pull", deployment.image))  # fmt: skip
        image_id = about["Id"]
        release = Release(
            id=release_id(number, deployment.profile, deployment.digest),
            number=number,
            key=secrets.token_hex(16),
            created=now(),
            command=command,
            deployment=deployment,
        )
        files = filling.contents(
            deployment, wanted.patches, self.lock.accepted(), lambda path: daemon.read_file(image_id, path),
            secretfiles.secret_files(self.catalog.site, self.catalog.root),
        )  # fmt: skip
        hidden = secretfiles.read_secrets(self.catalog.site, self.catalog.root)
        text = self.text(deployment, release.id, release.key, str(self.catalog.root))
        release = release.model_copy(update={"contents": filling.hashes(files, text)})
        return filling.Prepared(release, image_id, files, text, hidden)


def check_with_compose(prepared: filling.Prepared, store: Store, composer: Composer) -> None:
    """Let Compose read the release before anything is stopped; nothing of it stays on the disk."""
    with filling.scratch(store.folder) as folder:
        filling.fill(folder, prepared.files, prepared.text, dict.fromkeys(prepared.secrets, "hidden"))
        composer.accepts(folder)

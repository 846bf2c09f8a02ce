"""Source distributions are whole or not there, and never another file than the one that was meant."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from b70_kernels.plugin.proven import VERSIONS
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from b70ctl.errors import B70Error, MachineError, UsageError
from tests.vllm import sdist

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Answer:
    """What an index answers: a part of the file, which may break off."""

    def __init__(self, status: int, content: bytes, breaks: bool) -> None:
        self.status_code, self._content, self._breaks = status, content, breaks

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            raise OSError(f"{self.status_code}")

    def iter_content(self, size: int) -> Iterator[bytes]:
        yield self._content
        if self._breaks:
            raise OSError("the connection broke")


class Index:
    """A session that gives so many bytes at a time, and then breaks off."""

    def __init__(self, content: bytes, *pieces: int, ranges: bool = True) -> None:
        self._content, self._pieces, self._ranges = content, list(pieces), ranges
        self.asked: list[int] = []

    def get(self, url: str, headers: dict[str, str], stream: bool) -> Answer:
        start = int(headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.asked.append(start)
        if start >= len(self._content):
            return Answer(416, b"", breaks=False)
        start = start if self._ranges else 0
        size = self._pieces.pop(0) if self._pieces else len(self._content)
        piece = self._content[start : start + size]
        return Answer(206 if start else 200, piece, breaks=start + size < len(self._content))


def fetched(index: Index, tmp_path: Path) -> bytes:
    part = tmp_path / "part"
    sdist.download(index, "https://index/vllm.tar.gz", part, DIGEST)
    return part.read_bytes()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_download_is_gone_on_with(tmp_path: Path, ranges: bool) -> None:
    index = Index(CONTENT, 100, 3000, ranges=ranges)
    assert fetched(index, tmp_path) == CONTENT
    assert index.asked[:2] == [0, 100]


def test_what_another_run_left_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(CONTENT[:5000])
    index = Index(CONTENT)
    assert fetched(index, tmp_path) == CONTENT
    assert index.asked == [5000]


@given(left=st.binary(max_size=50), pieces=st.lists(st.integers(1, 20_000), max_size=2))
def test_whatever_lies_there_the_file_is_right_in_the_end(
    left: bytes, pieces: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("part")
    (folder / "part").write_bytes(left)
    assert fetched(Index(CONTENT, *pieces), folder) == CONTENT


def test_another_file_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"its sha256 is .*, not "):
        fetched(Index(CONTENT[::-1]), tmp_path)
    assert not (tmp_path / "part").exists()


def test_an_index_that_breaks_off_for_ever_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="the connection broke"):
        fetched(Index(CONTENT, 1, 1, 1, 1, 1), tmp_path)


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return path


def test_only_what_the_tiers_need_is_unpacked(tmp_path: Path) -> None:
    packed = archive(
        tmp_path / "vllm.tar.gz",
        {
            "vllm-0.21.0/vllm/envs.py": b"x = 1",
            "vllm-0.21.0/vllm/a/table.json": b"{}",
            "vllm-0.21.0/docker/Dockerfile.xpu": b"FROM",
            "vllm-0.21.0/requirements/xpu.txt": b"torch",
            "vllm-0.21.0/csrc/ops.cpp": b"",
            "vllm-0.21.0/vllm/page.js": b"",
            "vllm-0.21.0/vllm.egg-info/PKG-INFO": b"",
            "vllm-0.21.0/setup.py": b"",
            "vllm-0.21.0/vllm/../../outside.py": b"",
        },
    )
    folder = tmp_path / "0.21.0"
    sdist.unpack(packed, folder, "stamp")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {".unpacked", "vllm/envs.py", "vllm/a/table.json", "docker/Dockerfile.xpu", "requirements/xpu.txt"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.21.0", "vllm.tar.gz"]


def test_a_broken_archive_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "0.21.0"
    sdist.unpack(archive(tmp_path / "good", {"vllm-0.21.0/vllm/envs.py": b"good"}), folder, "stamp")
    (tmp_path / "bad").write_bytes((tmp_path / "good").read_bytes()[:40])
    with pytest.raises((tarfile.TarError, EOFError)):
        sdist.unpack(tmp_path / "bad", folder, "stamp")
    assert (folder / "vllm/envs.py").read_bytes() == b"good"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.21.0", "bad", "good"]


def test_the_table_knows_every_release_that_the_plugin_accepts_in_order() -> None:
    written = [*json.loads(sdist.TABLE.read_text())]
    assert written == sorted(written, key=Version)
    assert set(VERSIONS) <= set(written)
    assert all(len(digest) == 64 for digest in sdist.hashes().values())


@pytest.mark.parametrize("arguments", [[], ["--add"], ["latest"], ["--add", "0.21.0; rm"]])
def test_no_version_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        sdist.main(arguments)


def test_a_release_without_a_hash_is_not_fetched() -> None:
    with pytest.raises(B70Error, match=r"no hash is known of vLLM 0\.18\.0") as refused:
        sdist.sources("0.18.0")
    assert refused.value.hint == "python -m tests.vllm.sdist --add 0.18.0"

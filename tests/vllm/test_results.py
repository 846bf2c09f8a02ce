"""Results are kept in one order, and the page of compatibility says what they say and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from b70_kernels.plugin.proven import VERSIONS
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.errors import UsageError
from tests.vllm import prove, versions
from tests.vllm.record import OUTCOMES, WAYS, Recorded, Row, read, record
from tests.vllm.table import PAGE, of_version, page, recordings

ROWS = st.builds(
    Row,
    version=st.sampled_from(["0.9.0", "0.19.0", "0.20.0", "0.30.0"]),
    feature=st.sampled_from(["plugin: a", "plugin: b", "patch: c", "other: d"]),
    outcome=st.sampled_from(OUTCOMES),
    how=st.sampled_from(WAYS),
    note=st.sampled_from(["", "why", "— ünicode"]),
)
FIRST = Row("0.19.0", "plugin: a", "ok", "source")
SECOND = Row("0.20.0", "plugin: a", "refused", "source", "why")


def test_the_page_is_what_the_results_generate() -> None:
    assert PAGE.read_text() == page(recordings()), "make compatibility"


@pytest.mark.parametrize("tier", sorted(recordings()))
def test_nothing_that_is_recorded_has_failed(tier: str) -> None:
    assert [row for row in read(tier).rows if row.outcome == "failed"] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_release_that_the_plugin_accepts_is_on_the_page(version: str) -> None:
    assert f"| {version} | accepts |" in PAGE.read_text()


@pytest.mark.parametrize("tier", ["source", "config", "backend"])
def test_a_release_is_accepted_once_it_has_passed_every_tier_that_runs_one(tier: str) -> None:
    passed = {row.version for row in read(tier).rows if row.how == tier and row.feature.startswith("plugin: ")}
    assert {*VERSIONS} <= passed


@pytest.mark.parametrize(("tier", "listed"), [*versions.TIERS.items(), ("engine", versions.ENGINE)])
def test_a_tier_has_recorded_every_release_that_it_is_for(tier: str, listed: tuple[str, ...]) -> None:
    assert {row.version for row in read(tier).rows} >= {*listed}


def test_the_page_says_that_nothing_has_run_on_a_card() -> None:
    assert "**Nothing on this page has run on a B70.**" in PAGE.read_text()


@given(st.lists(ROWS, max_size=8))
def test_rows_come_back_as_they_were_kept(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("results")
    record("tier", rows, command="make", folder=folder)
    kept = {(row.version, row.feature, row.how): row for row in rows}
    assert {*read("tier", folder).rows} == {*kept.values()}


@given(st.lists(ROWS, max_size=8, unique_by=lambda row: (row.version, row.feature, row.how)), st.randoms())
def test_the_order_of_rows_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], random: object
) -> None:
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    record("tier", rows, command="make", folder=one, today="2026-01-01")
    random.shuffle(rows)  # type: ignore[attr-defined]
    for row in rows:
        record("tier", [row], command="make", folder=two, today="2026-01-01")
    assert read("tier", one) == read("tier", two)
    assert page({"tier": read("tier", one)}) == page({"tier": read("tier", two)})


def test_a_second_run_that_finds_the_same_writes_nothing(tmp_path: Path) -> None:
    record("tier", [FIRST], command="make", folder=tmp_path, today="2026-01-01")
    before = (tmp_path / "tier.json").stat()
    record("tier", [FIRST], command="make", folder=tmp_path, today="2026-02-02")
    assert (tmp_path / "tier.json").stat() == before
    record("tier", [SECOND], command="make", folder=tmp_path, today="2026-02-02")
    assert read("tier", tmp_path) == Recorded("2026-02-02", "make", (FIRST, SECOND))


def test_two_runs_that_end_at_once_both_keep_their_rows(tmp_path: Path) -> None:
    rows = [Row(f"0.{minor}.0", "plugin: a", "ok", "source") for minor in range(20)]
    with ThreadPoolExecutor(8) as together:
        for done in [together.submit(record, "tier", [row], command="make", folder=tmp_path) for row in rows]:
            done.result()
    assert read("tier", tmp_path).rows == tuple(rows)


def test_a_run_that_looked_at_everything_forgets_what_is_no_more(tmp_path: Path) -> None:
    old = Row("0.19.0", "plugin: gone", "ok", "source")
    record("tier", [old, SECOND], command="make", folder=tmp_path)
    record("tier", [FIRST], command="make", folder=tmp_path)
    assert old in read("tier", tmp_path).rows
    record("tier", [FIRST], command="make", folder=tmp_path, whole=True)
    assert read("tier", tmp_path).rows == (FIRST, SECOND)


@pytest.mark.parametrize("wrong", [("fine", "source", "a: b"), ("ok", "luck", "a: b"), ("ok", "source", "no area")])
def test_a_result_in_other_words_is_refused(wrong: tuple[str, str, str]) -> None:
    outcome, how, feature = wrong
    with pytest.raises(ValueError, match="no result"):
        Row("0.19.0", feature, outcome, how)


def test_releases_of_which_the_same_is_said_share_a_column() -> None:
    rows = [Row(version, "plugin: a", "ok", "source") for version in ("0.9.0", "0.10.0", "0.11.0")]
    other, again = Row("0.12.0", "plugin: a", "refused", "config", "why"), Row("0.13.0", "plugin: a", "ok", "source")
    text = page({"tier": Recorded("", "", (*rows, other, again))})
    assert "| feature | 0.9.0 to 0.11.0 | 0.12.0 | 0.13.0 |" in text
    assert "| a | S | no C | S |" in text
    assert "- a, 0.12.0 (config): why" in text


def test_a_release_that_a_tier_left_out_is_not_within_a_range() -> None:
    rows = (Row("0.21.0", "plugin: a", "ok", "source", "why"), Row("0.22.1", "plugin: a", "ok", "source", "why"),
            Row("0.22.0", "patch: c", "ok", "source"))  # fmt: skip
    text = page({"tier": Recorded("", "", rows)})
    assert "| feature | 0.21.0 | 0.22.0 | 0.22.1 |" in text
    assert "- a, 0.21.0, 0.22.1 (source): why" in text


def test_what_failed_is_shown_as_failed() -> None:
    rows = (Row("0.9.0", "plugin: a", "failed", "source", "wrong"), Row("0.9.0", "plugin: a", "ok", "config"))
    text = page({"tier": Recorded("", "", rows)})
    assert "| a | C, **failed S** |" in text
    assert "| 0.9.0 | refuses | **1 of 1 failed** | 1 hold |" in text


@pytest.mark.parametrize("arguments", [[], ["0.33.0", "0.34.0"], ["latest"]])
def test_one_release_is_proven_at_a_time(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        prove.main(arguments)


@given(st.lists(ROWS, max_size=8))
def test_one_release_is_told_row_by_row(rows: list[Row]) -> None:
    told = of_version("0.19.0", {"tier": Recorded("", "", tuple(rows))})
    about = [row for row in rows if row.version == "0.19.0"]
    assert len(told.splitlines()) == (len(about) or 1)
    assert all(row.feature in told for row in about)

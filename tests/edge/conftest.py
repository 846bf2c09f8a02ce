"""A site whose daemon is a stub, for the tests that ask for it."""

import pytest

from tests.stub_site import a_stub_site, without_engines


@pytest.fixture
def no_engines(monkeypatch):
    """Engines that are there serve and answer."""
    without_engines(monkeypatch)


@pytest.fixture
def site(tmp_path):
    """A site that serves OLD."""
    return a_stub_site(tmp_path)

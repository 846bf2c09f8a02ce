"""A site that would open an engine to everybody, or that nobody could mean, is no site."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.site import API_KEY, Secret, Site

KEY = {API_KEY: {"file": "secrets/key"}}


def site(**said):
    return Site.model_validate(said)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.20", "fd00::1", "::ffff:10.0.0.1"])
def test_an_address_that_others_reach_needs_a_key(bind):
    with pytest.raises(ValidationError, match=API_KEY):
        site(bind=bind)
    assert site(bind=bind, secrets=KEY).bind == bind


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.53", "::1"])
def test_loopback_needs_no_key(bind):
    assert site(bind=bind).bind == bind


def test_another_secret_is_no_key():
    with pytest.raises(ValidationError, match=API_KEY):
        site(bind="0.0.0.0", secrets={"HF_TOKEN": {"env": "HF_TOKEN"}})


@given(st.ip_addresses())
def test_no_address_but_loopback_is_ever_bound_without_a_key(address):
    try:
        assert site(bind=str(address)).bind == str(address)
    except ValidationError:
        assert not address.is_loopback
    else:
        assert address.is_loopback


@pytest.mark.parametrize("bind", ["localhost", "", "127.0.0.1:8000", "127.1", "*"])
def test_an_address_is_written_as_numbers(bind):
    with pytest.raises(ValidationError):
        site(bind=bind)


@pytest.mark.parametrize("said", [{}, {"file": "f", "env": "E"}, {"env": "NOT OK"}, {"file": ""}, {"value": "k"}])
def test_a_secret_has_one_source_and_never_a_value(said):
    with pytest.raises(ValidationError):
        Secret.model_validate(said)


@pytest.mark.parametrize("name", ["", "B70", "-b70", "a b", "a.b", "a/b", "x" * 32, "b70\n"])
def test_a_name_that_docker_could_not_carry_is_refused(name):
    with pytest.raises(ValidationError):
        site(name=name)


@pytest.mark.parametrize("card", ["03:00.0", "0000:03:00.8", "0000:03:00.0 ", "0000:03:0G.0", "card0"])
def test_a_card_is_a_whole_pci_address(card):
    with pytest.raises(ValidationError):
        site(cards=[card])


@pytest.mark.parametrize("said", [{"port": 0}, {"port": 65536}, {"port": "8000"}, {"gids": [-1]}, {"gids": ["render"]},
                                  {"dri": "dev/dri"}, {"keep": 0}, {"nmae": "x"}])  # fmt: skip
def test_what_cannot_be_meant_is_refused(said):
    with pytest.raises(ValidationError):
        site(**said)


def test_two_sites_of_one_name_share_a_network_and_two_names_do_not():
    assert site(name="a").network == site(name="a", port=9).network != site(name="b").network

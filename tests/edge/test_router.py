"""A router is asked, and anything but a yes is an error that says what came."""

import http.server
import os
import threading

import pytest

from b70ctl.core.rotation import Call, Command
from b70ctl.edge import router
from b70ctl.edge.router import ask_router
from b70ctl.errors import RouterError
from tests.eventually import is_gone

ENV = {"ACTION": "remove", "URL": "http://127.0.0.1:8000"}


@pytest.fixture
def asked():
    """A server that answers with the status in the path, and the requests that it got."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers.get("Content-Length") or 0)
            got.append((self.command, self.path, self.rfile.read(length), self.headers.get("Content-Type")))
            self.send_response(int(self.path.split("/")[1]))
            self.send_header("Location", "/200/elsewhere")
            self.end_headers()
            self.wfile.write(b"Worker already exists")

        def do_DELETE(self):
            self.do_POST()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def test_a_request_is_sent_as_it_was_asked_for_and_not_through_a_proxy(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    base, got = asked
    ask_router(Call("DELETE", f"{base}/204/w"), tmp_path)
    ask_router(Call("POST", f"{base}/200/w", '{"a": 1}'), tmp_path)
    assert got == [("DELETE", "/204/w", b"", None), ("POST", "/200/w", b'{"a": 1}', "application/json")]


def test_a_refusal_is_told_with_what_the_router_said(asked, tmp_path):
    base, _ = asked
    with pytest.raises(RouterError, match=r"HTTP 400 to POST .*: Worker already exists"):
        ask_router(Call("POST", f"{base}/400/w"), tmp_path)


def test_a_router_that_sends_elsewhere_has_not_said_yes(asked, tmp_path):
    base, got = asked
    with pytest.raises(RouterError, match="HTTP 302"):
        ask_router(Call("POST", f"{base}/302/w", "{}"), tmp_path)
    assert len(got) == 1


def test_what_is_so_already_is_no_refusal(asked, tmp_path):
    base, got = asked
    ask_router(Call("POST", f"{base}/400/w", already="already exists"), tmp_path)
    assert len(got) == 1
    with pytest.raises(RouterError):
        ask_router(Call("POST", f"{base}/400/w", already="something else"), tmp_path)


def test_a_router_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RouterError, match="did not answer POST") as refused:
        ask_router(Call("POST", "http://127.0.0.1:9/x"), tmp_path)
    assert "site.yaml" in str(refused.value.hint)


@pytest.mark.process
def test_a_program_starts_in_the_sites_directory_with_action_and_url(tmp_path):
    ask_router(Command(("sh", "-c", 'pwd > said; echo "$ACTION $URL $HOME" >> said'), ENV), tmp_path)
    said = (tmp_path / "said").read_text().splitlines()
    assert said == [str(tmp_path), f"remove http://127.0.0.1:8000 {os.environ['HOME']}"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("sh", "-c", "echo it is closed >&2; exit 3"), r"`sh` ended with exit 3 at remove: it is closed"),
        (("false",), r"`false` ended with exit 1 at remove, and nothing more$"),
        (("b70ctl-no-such-program",), "ended with exit 127 .*No such file"),
    ],
)
def test_a_program_that_fails_is_told_with_its_last_words(tmp_path, argv, told):
    with pytest.raises(RouterError, match=told):
        ask_router(Command(argv, ENV), tmp_path)


LEAVES = "setsid sleep 600 & echo $! > pid; ls -l /proc/self/fd > open"


@pytest.mark.process
def test_what_a_hook_leaves_in_the_background_ends_with_it_and_never_had_a_lock(tmp_path):
    with (tmp_path / "lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        ask_router(Command(("sh", "-c", LEAVES), ENV), tmp_path)
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert str(tmp_path / "lock") not in (tmp_path / "open").read_text()


@pytest.mark.process
def test_a_secret_that_a_hook_prints_is_hidden_also_where_it_would_be_cut_through(tmp_path):
    key = "k" * 350
    with pytest.raises(RouterError) as refused:
        ask_router(Command(("sh", "-c", 'echo "no: $KEY" >&2; exit 1'), ENV | {"KEY": key}), tmp_path, [key])
    assert refused.value.what.endswith("at remove: no: …")


@pytest.mark.process
def test_a_hook_that_does_not_end_is_told_without_its_script(tmp_path, monkeypatch):
    monkeypatch.setattr(router, "SECONDS", 0.3)
    with pytest.raises(RouterError, match="`sh` did not end within 0 s") as refused:
        ask_router(Command(("sh", "-c", "sleep 600; echo hush"), ENV), tmp_path)
    assert "hush" not in refused.value.what


def test_a_secret_that_a_router_says_is_hidden(asked, tmp_path):
    base, _ = asked
    with pytest.raises(RouterError) as refused:
        ask_router(Call("POST", f"{base}/400/w"), tmp_path, ["already"])
    assert refused.value.what.endswith("Worker … exists")

"""What `docs/deploy` and the page on service show: files that fit the program, and clients that lose no decision."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import typer

import optensemble as oe
from optensemble.cli import app
from tests.serving.processes import Server, make_log, running
from tests.serving.worlds import labels, rows

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

DOCS = Path(__file__).parents[1] / "docs"
DEPLOY, PAGE = DOCS / "deploy", (DOCS / "howto" / "service.md").read_text(encoding="utf-8")
TOKEN = "0123456789abcdef"
LIVE: Any = typer.main.get_command(app)
METRIC = re.compile(r"\boptensemble_(?!session)\w+")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = make_log(tmp_path_factory.mktemp("served") / "decisions.db")
    options = ("--token-env", "SECRET", "--allow-host", "decisions.example.org")
    with running(log, *options, token=TOKEN) as started:
        yield started


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def options_of(*path: str) -> dict[str, Any]:
    """Return the options of a command by their names."""
    command = LIVE
    for name in path:
        command = command.commands[name]
    return {option: parameter for parameter in command.params for option in parameter.opts}


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return what a command line says, without running it."""
    command = LIVE
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    found: dict[str, Any] = command.make_context("optensemble", list(arguments)).params
    return found


# Files


def unit() -> dict[str, list[str]]:
    """Return the settings of the unit by their names."""
    found: dict[str, list[str]] = {}
    for line in read("optensemble.service").splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_the_server_and_gives_it_time_to_end() -> None:
    program, *arguments = shlex.split(unit()["ExecStart"][0].replace("%S", "/var/lib"))
    given = parsed(arguments)
    assert program.endswith("/optensemble")
    assert given["log"].startswith(f"/var/lib/{unit()['StateDirectory'][0]}/")
    assert float(unit()["TimeoutStopSec"][0]) > given["grace"]
    assert "MemoryDenyWriteExecute" not in unit(), "solvers are compiled as they are needed"
    assert "ProtectProc" not in unit(), "a process sees by /proc whether the leader of its log lives"


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    path = tmp_path / "optensemble.service"
    text = read("optensemble.service").replace("/opt/optensemble/bin/optensemble", sys.executable)
    path.write_text(re.sub("^(User|Group)=.*", r"\1=root", text, flags=re.MULTILINE))
    done = subprocess.run([program, "verify", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert str(path) not in done.stderr, done.stderr


def test_the_container_file_starts_the_server_and_looks_after_it() -> None:
    text = read("Containerfile").replace("\\\n", " ")
    steps = [line.partition(" ")[::2] for line in text.splitlines() if line and not line.startswith("#")]
    one = dict(steps)
    start = [*json.loads(one["ENTRYPOINT"]), *json.loads(one["CMD"])]
    given = parsed(start[1:])
    assert (given["host"], str(given["port"])) == ("0.0.0.0", one["EXPOSE"])
    assert given["log"].startswith(f"{one['VOLUME']}/")
    assert f":{given['port']}/healthz" in one["HEALTHCHECK"]
    assert (one["USER"], one["STOPSIGNAL"]) == ("optensemble", "SIGTERM")
    compiled = json.dumps([body for kind, body in steps if kind == "RUN"])
    for part in re.findall(r"optensemble ((?:init|fit|live) .*?) &&", compiled):
        parsed(shlex.split(part))


def test_the_health_check_is_content_with_a_server(server: Server) -> None:
    code = re.search(r'"-c", "(.*)"\]', read("Containerfile"))
    assert code
    check = [sys.executable, "-c", code[1].replace("8000", str(server.port))]
    assert subprocess.run(check, check=False).returncode == 0
    check[-1] = code[1].replace("8000", "1")
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


def test_proxies_let_pass_what_the_server_takes() -> None:
    nginx, caddy = read("nginx.conf"), read("Caddyfile")
    most = options_of("serve")["--most-bytes"].default
    assert nginx.count("{") == nginx.count("}")
    for text, megabyte in ((nginx, 1 << 20), (caddy, 1_000_000)):
        size = re.search(r"(?:client_max_body_size|max_size)\s+(\d+)", text)
        assert size
        assert int(size[1]) * megabyte >= most
    assert nginx.count("proxy_set_header Host $http_host;") == nginx.count("proxy_pass")
    events = nginx.partition("location = /events")[2]
    assert "proxy_buffering off;" in events.partition("}")[0]


def test_a_proxy_that_hands_on_the_host_is_answered(server: Server) -> None:
    known = {"Host": "decisions.example.org", "Origin": "https://decisions.example.org"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, headers, _ = server.ask("POST", "/session", f"token={TOKEN}".encode(), {**known, **form})
    assert (status, headers["location"]) == (303, "/")
    assert "optensemble_session" in headers["set-cookie"]
    assert server.ask("POST", "/session", b"token=x", {**form, "Origin": known["Origin"]})[0] == 403
    assert server.ask("GET", "/healthz", None, {"Host": "other.example.org"})[0] == 400


@pytest.mark.parametrize("command", ["caddy validate --config Caddyfile", "promtool check rules alerts.yml"])
def test_files_are_ones_that_their_programs_take(command: str) -> None:
    program, *arguments = command.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=DEPLOY, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Metrics


@pytest.fixture(scope="module")
def metrics(server: Server) -> set[str]:
    """The names of all metrics, of a server that has decided and learned."""
    token = {"Authorization": f"Bearer {TOKEN}"}
    server.ask("POST", "/decide", {"rows": rows(0), "ids": ["for metrics"]}, token)
    server.ask("POST", "/observe", {"ids": ["for metrics"], "labels": labels(0)}, token)
    text = server.ask("GET", "/metrics", headers=token)[2].decode()
    samples = set(re.findall(r"^(optensemble_\w+)", text, re.MULTILINE))
    return samples | set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))


def test_every_metric_that_is_named_is_there(metrics: set[str]) -> None:
    for text in (read("alerts.yml"), PAGE):
        assert len(set(METRIC.findall(text))) > 5
        assert set(METRIC.findall(text)) <= metrics


def test_every_metric_is_in_the_table(metrics: set[str]) -> None:
    parts = re.compile("_(bucket|sum|count)$")
    whole = {name for name in metrics if not (parts.search(name) and parts.sub("", name) in metrics)}
    assert whole == set(METRIC.findall(PAGE.partition("\n## What to watch\n")[2].partition("```")[0]))


def test_labels_of_metrics_in_rules_are_those_of_the_server(server: Server, metrics: set[str]) -> None:
    token = {"Authorization": f"Bearer {TOKEN}"}
    text = server.ask("GET", "/metrics", headers=token)[2].decode()
    for name, chosen in re.findall(r"(optensemble_\w+)\{([^}]*)\}", read("alerts.yml")):
        lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
        for label, how, value in re.findall(r'(\w+)(=~?)"([^"]*)"', chosen):
            values = re.findall(rf'\b{label}="([^"]*)"', "\n".join(lines))
            assert values, (name, label)
            if label != "status":
                assert any(value == each or (how == "=~" and re.fullmatch(value, each)) for each in values)


def test_rules_have_what_prometheus_wants() -> None:
    yaml = pytest.importorskip("yaml", reason="the group `docs` is not installed")
    (group,) = yaml.safe_load(read("alerts.yml"))["groups"]
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert re.search(r"[<>]|== [01]", rule["expr"])
        assert rule["annotations"]["summary"].endswith(".")
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])


# The page


def test_options_on_the_page_exist() -> None:
    known = {"--json", "--help"} | set(options_of("serve"))
    for group in ("live", "log"):
        for name in LIVE.commands[group].commands:
            known |= set(options_of(group, name))
    prose = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(?:[^`\n]* )?(--[a-z-]+)", prose))
    assert len(named) > 8
    assert named <= known


def test_commands_on_the_page_can_be_read() -> None:
    blocks = re.findall(r"^```(?:console|shell)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", " ")
    found = re.findall(r"(?:^|[/ ])optensemble ((?:live|serve|log|fit) [^|\n]*)", text, re.MULTILINE)
    assert len(found) > 6
    for command in found:
        parsed(shlex.split(command))


def test_limits_on_the_page_are_those_of_the_server() -> None:
    from optensemble.serving.settings import Limits

    limits = Limits()
    table = PAGE.partition("\n## Limits\n")[2].partition("\n\nOne thread")[0]
    for number in (
        f"{limits.most_bytes // 1_000_000} MB",
        f"{limits.most_rows:,}",
        f"{limits.most_bytes_at_once // 1_000_000} MB",
        f"{limits.longest_id} characters",
        f"{limits.request_seconds:.0f} seconds each",
        f"{limits.queue_seconds:.0f} seconds, and {limits.most_queued:,} requests",
        f"{limits.most_connections:,}, each idle for {limits.idle_seconds:.0f} seconds",
        f"{limits.most_header_bytes:,} bytes",
        f"| {limits.most_listeners} |",
    ):
        assert number in table, number


# Clients


@contextlib.contextmanager
def losing(port: int, answers: int) -> Iterator[int]:
    """Yield the port of a line to a server that loses this number of answers: requests arrive, answers do not."""
    left = threading.Semaphore(answers)

    def carry(near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", port), timeout=30) as far:
            request = near.recv(1 << 16)
            head, _, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            missing = (0 if length is None else int(length[1])) - len(body)
            while missing > 0:
                part = near.recv(1 << 16)
                request, missing = request + part, missing - len(part)
            far.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b"".join(iter(lambda: far.recv(1 << 16), b""))
            if not left.acquire(blocking=False):
                near.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(4) as carriers:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    carriers.submit(carry, listening.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def client(port: int, token: str = TOKEN, patience: float = 30.0) -> Any:
    return run_path(str(DEPLOY / "client.py"))["Client"](f"http://127.0.0.1:{port}", token, patience)


def test_the_client_decides_observes_and_shows_the_status(server: Server) -> None:
    asked = client(server.port)
    decided = asked.decide(rows(1, 2), ["1", "2"])
    assert [each["id"] for each in decided] == ["1", "2"]
    assert asked.observe(["2", "1"], labels(2, 1))["learned"] == 2
    assert asked.observe(["2", "1"], labels(2, 1))["known"] == 2
    assert asked.status()["decided"] >= 2
    with pytest.raises(ValueError, match=r"409.*given to other rows"):
        asked.decide(rows(3), ["1"])
    with pytest.raises(ValueError, match=r"401.*needs a token"):
        client(server.port, "").status()


def test_an_answer_that_is_lost_costs_no_decision(server: Server) -> None:
    before = client(server.port).status()["decided"]
    with losing(server.port, answers=3) as port:
        decided = client(port).decide(rows(10, 11), ["lost 10", "lost 11"])
    assert client(server.port).status()["decided"] == before + 2
    assert client(server.port).decide(rows(10, 11), ["lost 10", "lost 11"]) == decided


def test_labels_whose_answer_is_lost_are_learned_once(server: Server) -> None:
    client(server.port).decide(rows(20), ["20"])
    before = client(server.port).status()["labels"]
    with losing(server.port, answers=2) as port:
        answer = client(port).observe(["20"], labels(20))
    assert (answer["learned"], answer["known"]) == (0, 1)
    assert client(server.port).status()["labels"] == before + 1


def test_the_client_waits_for_a_server_that_is_killed_and_started_again(tmp_path: Path) -> None:
    log = make_log(tmp_path / "decisions.db")
    with running(log) as first:
        decided = client(first.port).decide(rows(0), ["0"])
        first.process.kill()
        first.process.wait(20)
        with ThreadPoolExecutor(1) as asking:
            answer = asking.submit(client(first.port, patience=90.0).decide, rows(0, 1), ["0", "1"])
            command = ["serve", "--log", str(log), "--port", str(first.port), "--quiet"]
            with subprocess.Popen([sys.executable, "-m", "optensemble", *command]) as second:
                try:
                    again = answer.result(90)
                finally:
                    second.terminate()
    assert again[:1] == decided


def test_the_client_gives_up_in_the_end() -> None:
    with pytest.raises(ConnectionError, match=r"no answer from .* for 0 seconds"):
        client(1, patience=0.0).status()


def test_tables_of_text_become_rows_of_json() -> None:
    value = run_path(str(DEPLOY / "client.py"))["value"]
    assert [value(text) for text in ("1.5", "-2", "", "nan", "west", "2025-08-23")] == [
        *(1.5, -2.0, None, None, "west", "2025-08-23")
    ]


def by_curl(port: int, *arguments: str, token: str = TOKEN) -> tuple[int, Any]:
    environment = {**os.environ, "OPTENSEMBLE_URL": f"http://127.0.0.1:{port}", "OPTENSEMBLE_TOKEN": token}
    command = ["sh", str(DEPLOY / "client.sh"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_client_in_a_shell_does_the_same(server: Server, tmp_path: Path) -> None:
    asked, given = tmp_path / "rows.json", tmp_path / "labels.json"
    asked.write_text(json.dumps({"rows": rows(30), "ids": ["shell"]}))
    given.write_text(json.dumps({"ids": ["shell"], "labels": labels(30)}))
    before = client(server.port).status()["decided"]
    with losing(server.port, answers=2) as port:
        code, answer = by_curl(port, "decide", str(asked))
    assert (code, [each["id"] for each in answer["decisions"]]) == (0, ["shell"])
    assert by_curl(server.port, "observe", str(given))[1]["learned"] == 1
    assert by_curl(server.port, "status")[1]["decided"] == before + 1
    asked.write_text(json.dumps({"rows": rows(31), "ids": ["shell"]}))
    code, answer = by_curl(server.port, "decide", str(asked))
    assert code == 1
    assert "given to other rows" in answer["error"]
    assert by_curl(server.port, "status", token="")[0] == 1


# Backups


def test_a_backup_made_while_it_serves_has_what_a_copy_of_the_file_lacks(tmp_path: Path) -> None:
    log, backup, copy = (make_log(tmp_path / "decisions.db"), tmp_path / "backup.db", tmp_path / "copy.db")
    with running(log) as started:
        asked = client(started.port)
        first = asked.decide(rows(*range(5)), [str(number) for number in range(5)])
        with contextlib.closing(sqlite3.connect(log)) as source, contextlib.closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        shutil.copy(log, copy)
        later = asked.decide(rows(5), ["5"])
        assert [each["id"] for each in later] == ["5"]
        started.process.kill()
        started.process.wait(20)
    with oe.LiveEnsemble.resume(copy, read_only=True) as live:
        assert live.decided_ == 0
    with running(backup) as restored:  # its leader has ended
        asked = client(restored.port)
        assert asked.decide(rows(*range(5)), [str(number) for number in range(5)]) == first
        with pytest.raises(ValueError, match="422"):
            asked.observe(["5"], labels(5))
        assert [each["id"] for each in asked.decide(rows(5), ["5"])] == ["5"]
        assert asked.observe(["5"], labels(5))["learned"] == 1

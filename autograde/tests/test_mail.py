"""The mail service: what it accepts stays, whoever dies."""

import contextlib
import json
import os
import pickle
import signal
import smtplib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from email.message import EmailMessage
from pathlib import Path

import psutil
import pytest

from crashlab import explore, launch
from crashlab.world import mail as module
from crashlab.world.mail import Delivered, MailService, mail_service

BOSS = "boss@example.com"


def send(
    mail: MailService,
    key: str = "run-217:step-9",
    *,
    to: str = BOSS,
    subject: str = "re2 is built",
    body: str = "It links.",
    timeout: float = 10,
) -> None:
    message = EmailMessage()
    message["From"] = "agent@example.com"
    message["To"] = to
    message["Subject"] = subject
    if key:
        message["Idempotency-Key"] = key
    message.set_content(body)
    with smtplib.SMTP(mail.host, mail.port, "localhost", timeout) as smtp:
        smtp.send_message(message)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    """Gives the folders that services have left behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return lambda: list(tmp_path.glob("crashlab-*"))


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((module.HOST, port)) == 0


def server_process(mail: MailService) -> psutil.Process:
    ours = (p for p in psutil.Process().children() if module.__file__ in p.cmdline())
    return next(p for p in ours if mail.port in [c.laddr.port for c in p.net_connections()])


def gone(process: psutil.Process) -> bool:
    """Whether it ends within a few seconds; dead but not yet reaped by init counts as gone."""
    for _ in range(200):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
                continue
        return True
    return False


# The three characters


@pytest.mark.parametrize(("character", "mails"), [("keyed", 1), ("asked", 2), ("plain", 2)])
def test_the_same_key_again_is_one_mail_only_where_keys_are_honoured(
    character: str, mails: int
) -> None:
    with mail_service(character) as mail:
        send(mail)
        send(mail)
        expected = Delivered(BOSS, "re2 is built", "It links.", "run-217:step-9")
        assert mail.inbox() == [expected] * mails


@pytest.mark.parametrize("character", ["keyed", "asked", "plain"])
def test_other_keys_and_no_key_are_other_mails_in_order(character: str) -> None:
    with mail_service(character) as mail:
        for key in ("b", "a", "", ""):
            send(mail, key)
        assert [delivered.key for delivered in mail.inbox()] == ["b", "a", "", ""]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"to": "team@example.com"}, "another recipient"),
        ({"subject": "re2 is done"}, "another subject"),
        ({"body": "It links now."}, "another body"),
        ({"to": "team@example.com", "body": "No."}, "another recipient and body"),
    ],
)
def test_a_key_that_comes_back_with_another_mail_is_refused_by_name(
    change: dict[str, str], named: str
) -> None:
    with mail_service("keyed") as mail:
        send(mail)
        with pytest.raises(smtplib.SMTPDataError, match=f"{named}'") as refused:
            send(mail, **change)
        assert refused.value.smtp_code == 554
        assert b"this Idempotency-Key came before" in refused.value.smtp_error
        send(mail)
        assert [delivered.body for delivered in mail.inbox()] == ["It links."]


def test_what_can_be_asked_tells_an_agent_too() -> None:
    with mail_service("asked") as mail:
        send(mail)
        send(mail, "")
        answers = launch(lambda: [mail.ask(key) for key in ("run-217:step-9", "run-217")]).result()
        assert answers == [True, False]


@pytest.mark.parametrize("character", ["keyed", "plain"])
def test_what_cannot_be_asked_says_so(character: str) -> None:
    with (
        mail_service(character) as mail,
        pytest.raises(RuntimeError, match=f'"{character}" and cannot be asked'),
    ):
        mail.ask("run-217:step-9")


@pytest.mark.parametrize("key", ["", None, 9])
def test_a_question_without_a_key_is_refused(key: object) -> None:
    with mail_service("asked") as mail, pytest.raises(ValueError, match="needs the key of a mail"):
        mail.ask(key)


def test_a_mail_is_read_as_it_was_written() -> None:
    key, body = "run-217:" + "ü" * 300, "Grüße,\n.\n..\nthe agent, " * 200 + "over"
    with mail_service("keyed") as mail:
        for _ in range(2):
            send(mail, key, to=f"{BOSS}, team@example.com", subject="Größe " * 40, body=body)
        (delivered,) = mail.inbox()
        assert delivered.to == f"{BOSS}, team@example.com"
        assert delivered.subject.split() == ["Größe"] * 40
        assert delivered.body == body
        assert delivered.key == key


def test_twenty_clients_at_once_with_one_key_are_one_mail() -> None:
    with mail_service("keyed") as mail:
        barrier = threading.Barrier(20)

        def client() -> None:
            barrier.wait()
            send(mail)

        clients = [threading.Thread(target=client) for _ in range(20)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        assert len(mail.inbox()) == 1


def test_two_mails_whose_ends_arrive_together_are_one_mail() -> None:
    with mail_service("keyed") as mail:
        connections = [almost_sent(mail) for _ in range(2)]
        for connection in connections:
            connection.sendall(b".\r\n")
        replies = [connection.recv(100) for connection in connections]
        assert replies == [b"250 OK\r\n"] * 2
        assert len(mail.inbox()) == 1
        for connection in connections:
            connection.close()


def almost_sent(mail: MailService, text: str = "It links.") -> socket.socket:
    """Send a mail but for the line that ends it."""
    smtp = smtplib.SMTP(mail.host, mail.port, "localhost")
    smtp.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    smtp.ehlo()
    smtp.mail("agent@example.com")
    smtp.rcpt(BOSS)
    smtp.docmd("data")
    smtp.sock.sendall(f"Idempotency-Key: k\r\n\r\n{text}\r\n".encode())
    smtp.file.close()
    return smtp.sock


# Faults


def test_a_lost_reply_is_a_disconnection_and_the_mail_is_there() -> None:
    with mail_service("plain") as mail:
        mail.lose_reply(times=2)
        for _ in range(2):
            with pytest.raises(smtplib.SMTPServerDisconnected):
                send(mail)
        send(mail)
        assert len(mail.inbox()) == 3


def test_a_refused_mail_is_not_there() -> None:
    with mail_service("keyed") as mail:
        mail.refuse()
        with pytest.raises(smtplib.SMTPDataError, match="try again later") as refused:
            send(mail)
        assert refused.value.smtp_code == 451
        assert mail.inbox() == []
        send(mail)
        assert len(mail.inbox()) == 1


def test_a_refusal_does_not_use_up_a_lost_reply() -> None:
    with mail_service("keyed") as mail:
        mail.lose_reply()
        mail.refuse()
        with pytest.raises(smtplib.SMTPDataError):
            send(mail)
        with pytest.raises(smtplib.SMTPServerDisconnected):
            send(mail)
        send(mail)
        assert len(mail.inbox()) == 1


def test_a_slow_service_answers_late() -> None:
    with mail_service("plain") as mail:
        mail.slow(0.3)
        began = time.monotonic()
        send(mail)
        assert time.monotonic() - began >= 0.3


def test_who_does_not_wait_for_a_slow_service_does_not_know_that_it_accepted() -> None:
    with mail_service("asked") as mail:
        mail.slow(600)
        with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
            send(mail, timeout=0.2)
        assert mail.ask("run-217:step-9")
        assert len(mail.inbox()) == 1


def test_a_cleared_service_is_as_good_as_new() -> None:
    with mail_service("keyed") as mail:
        send(mail)
        mail.lose_reply(9)
        mail.refuse(9)
        mail.slow(600)
        mail.clear()
        assert mail.inbox() == []
        send(mail, body="the same key, another body")
        assert len(mail.inbox()) == 1


@pytest.mark.parametrize(
    ("fault", "value"),
    [
        ("lose_reply", -1),
        ("lose_reply", 0.5),
        ("refuse", "2"),
        ("slow", -1),
        ("slow", float("nan")),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault: str, value: object) -> None:
    with mail_service("plain") as mail, pytest.raises(ValueError, match=f"mail.{fault} needs a"):
        getattr(mail, fault)(value)


# The sender dies


def test_it_travels() -> None:
    with mail_service("keyed") as mail:
        assert pickle.loads(pickle.dumps(mail)) == mail
        launch(send, mail).result()
        assert len(mail.inbox()) == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda mail: mail.inbox(),
        lambda mail: mail.clear(),
        lambda mail: mail.lose_reply(),
        lambda mail: mail.refuse(),
        lambda mail: mail.slow(1),
    ],
)
def test_an_agent_cannot_do_what_is_for_the_judge(look: Callable) -> None:
    with mail_service("asked") as mail:
        assert "for the judge" in launch(look, mail, echo=False).reason


def sends_and_says(mail: MailService) -> None:
    print("before")
    send(mail)
    print("after")


@pytest.mark.parametrize(("line", "mails"), [("send(mail)", 0), ('print("after")', 1)])
def test_a_mail_outlives_its_sender(line: str, mails: int) -> None:
    with mail_service("plain") as mail:
        assert launch(sends_and_says, mail, kill_before=line, echo=False).end == "killed"
        assert len(mail.inbox()) == mails


def test_the_last_bytes_of_a_dead_sender_are_dealt_with_before_anybody_is_told() -> None:
    """The senders die before the service can have read what they sent."""

    def hurry(mail: MailService) -> None:
        connection = almost_sent(mail, "x" * 900)
        connection.sendall(b".\r\n")
        print("sent")

    with mail_service("asked") as mail:
        for _ in range(50):
            mail.clear()
            assert launch(hurry, mail, kill_before='print("sent")', echo=False).end == "killed"
            assert mail.ask("k")
            assert len(mail.inbox()) == 1
            launch(hurry, mail, kill_before='print("sent")', echo=False)
            mail.clear()
            assert mail.inbox() == []


def test_a_question_waits_for_what_was_sent_before_it() -> None:
    """The service is stopped until both lie in its sockets: a long mail of a dead sender, a query.

    Without `_settle` the query would be answered first.
    """
    with mail_service("asked") as mail:
        connection = almost_sent(mail)
        server = server_process(mail)
        server.suspend()
        connection.sendall((b"x" * 900 + b"\r\n") * 2000 + b".\r\n")
        connection.close()
        with socket.create_connection((mail.host, mail.query_port)) as query:
            query.sendall(b'["ask", "k"]\n')
            server.resume()
            assert query.recv(100) == b"true\n"


def test_a_client_that_waits_holds_nobody_up() -> None:
    with mail_service("asked") as mail, closing(almost_sent(mail)):
        assert not mail.ask("k")
        assert mail.inbox() == []


@pytest.fixture(scope="module")
def keyed() -> Iterator[MailService]:
    with mail_service("keyed") as mail:
        yield mail


def once_or_twice(mail: MailService) -> str:
    return ["lost", "once", "twice"][len(mail.inbox())]


@pytest.mark.parametrize(
    ("key", "restart", "outcomes"),
    [
        ("run-217:step-9", True, {"once"}),
        ("", True, {"once", "twice"}),
        ("", False, {"lost", "once"}),
    ],
)
def test_one_service_serves_a_whole_exploration(
    keyed: MailService, key: str, restart: bool, outcomes: set[str]
) -> None:
    @contextmanager
    def cleared() -> Iterator[MailService]:
        keyed.clear()
        yield keyed

    def one_mail(mail: MailService) -> None:
        message = EmailMessage()
        message["From"] = "agent@example.com"
        message["To"] = BOSS
        if key:
            message["Idempotency-Key"] = key
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.send_message(message)
        print("sent")

    report = explore(one_mail, cleared, once_or_twice, restart=restart)
    assert set(report.counts) == outcomes
    assert report.uninterrupted == "once"
    assert report.at('print("sent")') == ({"twice"} if restart and not key else {"once"})


@pytest.mark.heavy
def test_within_smtplib_there_is_one_moment_from_which_on_the_mail_is_there(
    keyed: MailService,
) -> None:
    def one_mail(mail: MailService) -> None:
        with smtplib.SMTP(mail.host, mail.port, "localhost") as smtp:
            smtp.sendmail("agent@example.com", [BOSS], "Subject: re2\r\n\r\nIt links.\r\n")

    points = launch(one_mail, keyed, fine=True, record=True).points
    assert len(points) > 500
    mails = []
    for point in points[::5]:
        keyed.clear()
        assert launch(one_mail, keyed, fine=True, kill_before=point).end == "killed"
        mails.append(len(keyed.inbox()))
    assert mails == sorted(mails)
    assert set(mails) == {0, 1}


# The service's own end


def test_what_was_answered_by_250_is_in_the_file_even_if_the_service_is_killed(
    folders: Callable[[], list[Path]],
) -> None:
    with mail_service("plain") as mail:
        send(mail)
        server = server_process(mail)
        server.kill()
        server.wait(10)
        with closing(module.sqlite3.connect(mail.file)) as db:
            assert db.execute("SELECT body FROM mail").fetchall() == [("It links.",)]
        with pytest.raises(RuntimeError, match="the mail service does not answer"):
            mail.inbox()
    assert folders() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_ends_when_the_block_ends_by_an_exception(
    folders: Callable[[], list[Path]], error: type[BaseException]
) -> None:
    with pytest.raises(error), mail_service("plain") as mail:
        server = server_process(mail)
        assert is_open(mail.port)
        assert len(folders()) == 1
        raise error
    assert not server.is_running()
    assert not is_open(mail.port)
    assert not is_open(mail.query_port)
    assert folders() == []


def test_it_ends_while_clients_wait_for_it(folders: Callable[[], list[Path]]) -> None:
    with mail_service("plain") as mail:
        mail.slow(600)
        connection = almost_sent(mail)
        connection.sendall(b".\r\n")
        assert len(mail.inbox()) == 1
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert connection.recv(100) == b""
    connection.close()
    assert folders() == []


def test_a_service_that_has_ended_says_so() -> None:
    with mail_service("asked") as mail:
        pass
    for call in (mail.inbox, mail.clear, lambda: mail.ask("k")):
        with pytest.raises(RuntimeError, match="ends with its `with` block"):
            call()


def test_a_fork_of_the_caller_does_not_keep_it_alive() -> None:
    with mail_service("plain") as mail:
        server = server_process(mail)
        fork = os.fork()
        if fork == 0:
            signal.pause()
            os._exit(0)
        began = time.monotonic()
    try:
        assert time.monotonic() - began < 5
        assert not server.is_running()
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


def test_an_unknown_character_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'exact'"), mail_service("exact"):
        pass


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(1)", "its process ended at once"),
        ('print(\'{"error": "OSError: no port"}\')', "OSError: no port"),
    ],
)
def test_a_service_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    (tmp_path / "broken.py").write_text(program)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "broken.py"))
    with (
        pytest.raises(RuntimeError, match=f"the mail service did not start: {reason}"),
        mail_service("plain"),
    ):
        pass


CALLER = """
import json, time
from crashlab.world.mail import mail_service

try:
    with mail_service("plain") as mail:
        print(json.dumps([mail.port, str(mail.file.parent)]), flush=True)
        time.sleep(600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_and_cleans_up_however_its_parent_dies(tmp_path: Path, how: signal.Signals) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    port, folder = json.loads(caller.stdout.readline())
    (server,) = psutil.Process(caller.pid).children()
    assert Path(folder).parent == tmp_path
    os.killpg(caller.pid, how)  # as Ctrl-C in a terminal does: to all that it started
    if how == signal.SIGINT:
        assert caller.stdout.readline() == "interrupted\n"
    caller.wait(10)
    caller.stdout.close()
    assert gone(server)
    assert not is_open(port)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
def test_a_hundred_rounds_leave_no_process_port_or_file(
    folders: Callable[[], list[Path]],
) -> None:
    me = psutil.Process()
    before = len(me.children()), me.num_fds(), threading.active_count()
    ports, starts = set(), []
    for _ in range(100):
        began = time.monotonic()
        with mail_service("keyed") as mail:
            starts.append(time.monotonic() - began)
            send(mail)
            ports |= {mail.port, mail.query_port}
    assert (len(me.children()), me.num_fds(), threading.active_count()) == before
    assert not any(map(is_open, ports))
    assert folders() == []
    assert sorted(starts)[50] < 0.4

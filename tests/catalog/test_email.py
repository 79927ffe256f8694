"""The connectors of send-email, below the router: every case, what is sent, and how sure "not sent" is."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email import message_from_binary_file
from email.policy import default
from mailbox import Maildir
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.conformance import cases
from reconciler.egress.proxy import Proxy
from reconciler.model.hosts import Allow
from tests.catalog.calling import Call, Given, failure, outcome
from tests.catalog.loading import modules
from tests.kit import mailserver
from tests.kit.authority import authority
from tests.kit.engines import contract, interface, suite
from tests.kit.mailserver import Mailbox

# The test server takes logins over TLS from the start, which its library does not count as TLS.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

SMTP, MESSAGE, SENDING = modules("email-smtp", "main", "handler_email", "sending")
(MAILDIR,) = modules("email-maildir", "main")
SCOPE = interface("send-email/v1") / "conformance"
TOOL = contract("send-email/v1").tools["send_email_message"]
MAIL = {"to": ["ada@example.test"], "subject": "Minutes", "text": "As agreed.\n"}


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return authority(tmp_path_factory.mktemp("authority"), mailserver.NAME)


@pytest.fixture
def lead(
    monkeypatch: pytest.MonkeyPatch, trust: tuple[Path, ssl.SSLContext]
) -> Iterator[Callable[..., Mailbox]]:
    """Starts a mail server and leads the connector to it."""
    with ExitStack() as stack:

        def start(security: str = "tls", **more: Any) -> Mailbox:
            context = None if security == "none" else trust[1]
            box = stack.enter_context(mailserver.serving(context, starttls=security == "starttls", **more))
            for variable, value in {
                "SMTP_SERVER": f"127.0.0.1:{box.port}",
                "SMTP_SECURITY": security,
                "SMTP_SERVER_NAME": mailserver.NAME,
                "SMTP_SENDER": "ada@example.test",
                "SMTP_SENDER_NAME": "Ada Łącka, PhD",
                "SMTP_RECIPIENTS": "@example.test",
                "SMTP_USER": "" if security == "none" else mailserver.USER,
                "SMTP_PASSWORD": mailserver.PASSWORD,
                "HANDLER_SECRET_ENV_PASSWORD": "SMTP_PASSWORD",
                "SSL_CERT_FILE": str(trust[0]),
            }.items():
                monkeypatch.setenv(variable, value)
            return box

        yield start


def send(**more: Any) -> dict[str, Any]:
    arguments = {**MAIL, **more}
    assert TOOL.input_fault({key: value for key, value in arguments.items() if key != "attachments"}) is None
    answer: dict[str, Any] = SMTP.send(arguments, Call())
    assert TOOL.output_fault(answer) is None
    return answer


@pytest.mark.parametrize("case", suite("send-email/v1"), ids=lambda case: case.name)
def test_a_mail_server_keeps_every_case(lead: Callable[..., Mailbox], case: cases.Case) -> None:
    box = lead("tls")
    found = outcome(contract("send-email/v1"), {"send_email_message": SMTP.send}, case, SCOPE)
    assert cases.judge(case, found) == ()
    assert len(box.mails) == (case.expect.error is None)  # sent once, or not at all


@pytest.mark.parametrize("security", ["tls", "starttls", "none"])
def test_each_way_of_speaking_gets_the_message_there(lead: Callable[..., Mailbox], security: str) -> None:
    box = lead(security)
    send()
    assert len(box.mails) == 1
    assert box.logins == (security != "none")


def test_the_message_is_what_was_asked_for_and_blind_copies_are_blind(
    lead: Callable[..., Mailbox], tmp_path: Path
) -> None:
    box = lead()
    (tmp_path / "Prüfung\n.pdf").write_bytes(b"%PDF-1.4 \xff\x00 bytes")
    text = "Grüße\n.\n..\n" + "long " * 400 + "\n"
    answer = send(
        to=["ada@example.test", "ada@EXAMPLE.test"],
        cc=["bob@example.test"],
        bcc=["eve@example.test"],
        subject="Grüße aus Łódź",
        text=text,
        attachments=[Given(tmp_path / "Prüfung\n.pdf")],
        inReplyTo="<1@example.test>",
    )
    ((to, mail, data),) = box.mails
    assert to == answer["accepted"] == ["ada@example.test", "bob@example.test", "eve@example.test"]
    assert b"eve@" not in data
    assert (mail["Subject"], mail["In-Reply-To"], mail["References"]) == (
        "Grüße aus Łódź", "<1@example.test>", "<1@example.test>",
    )  # fmt: skip
    assert mail["From"] == '"Ada Łącka, PhD" <ada@example.test>'
    assert mail["Message-ID"] == answer["messageId"]
    assert answer["messageId"].endswith("@example.test>")
    assert mail["Auto-Submitted"] == "auto-generated"
    body = mail.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == text
    (file,) = mail.iter_attachments()
    assert (file.get_filename(), file.get_content_type()) == ("Prüfung_.pdf", "application/octet-stream")
    assert file.get_content() == b"%PDF-1.4 \xff\x00 bytes"
    assert max(map(len, data.split(b"\r\n"))) <= 998  # RFC 5322


def test_a_message_for_which_nobody_waits_any_more_is_not_handed_over(
    lead: Callable[..., Mailbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    box, call, offered = lead(), Call(), SENDING._offered

    async def late(*words: Any) -> Any:
        sent = await offered(*words)
        call.cancelled.set()  # the time of the call is over while recipients are named
        return sent

    monkeypatch.setattr(SENDING, "_offered", late)
    assert failure(lambda: SMTP.send(MAIL, call)) == ("unavailable", "cancelled")
    assert (box.mails, box.logins) == ([], 1)


def test_one_recipient_that_is_not_permitted_and_nobody_gets_anything(lead: Callable[..., Mailbox]) -> None:
    box = lead()
    with pytest.raises(Exception, match="recipient") as met:
        send(bcc=["eve@elsewhere.test"])
    assert (met.value.code, met.value.nothing_happened) == ("refused", True)
    assert "eve" not in met.value.diagnostic
    assert box.mails == []
    assert box.logins == 0


@pytest.mark.parametrize(
    ("permitted", "address", "may"),
    [
        ("*", "a@b.test", True), ("@b.test", "a@B.test", True), ("@b.test", "a@c.b.test", False),
        ("a@b.test", "A@b.test", True), ("a@b.test", "b@b.test", False),
        ("@b.test,c@d.test", "c@d.test", True),
        ("b.test", "a@b.test", False), ("@", "a@b.test", False), (",", "a@b.test", False),
    ],
)  # fmt: skip
def test_the_operators_list_says_who_may_be_written_to(permitted: str, address: str, *, may: bool) -> None:
    assert (MESSAGE.unpermitted([address], permitted) == []) is may


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SMTP_PASSWORD": "wrong-password"}, "neither user nor password (535)"),
        ({"SMTP_SERVER_NAME": "other.example.test"}, "certificate is not trusted"),
        ({"SSL_CERT_FILE": "/dev/null"}, "certificate is not trusted"),
        ({"SMTP_SECURITY": "starttls"}, "no way to the server"),
        ({"SMTP_USER": ""}, "(530)"),
    ],
)
def test_what_stops_before_the_message_is_unavailable_and_nothing_was_sent(
    lead: Callable[..., Mailbox], monkeypatch: pytest.MonkeyPatch, change: dict[str, str], words: str
) -> None:
    box = lead()
    monkeypatch.setattr(SENDING, "_COMMAND_S", 0.5)
    for variable, value in change.items():
        monkeypatch.setenv(variable, value)
    code, diagnostic = failure(send)
    assert code == "unavailable"
    assert words in diagnostic
    assert "password-that" not in diagnostic
    assert box.mails == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("451 try later", "unavailable"), ("554 5.7.1 spam: As agreed", "unavailable"),
        ("552 full", "too_large"),
        ("421 closing", "unavailable"), ("999 what", "unavailable"),
    ],
)  # fmt: skip
def test_the_servers_word_after_the_message_is_believed_and_not_repeated(
    lead: Callable[..., Mailbox], reply: str, code: str
) -> None:
    box = lead()
    box.reply = reply
    found, diagnostic = failure(send)
    assert found == code
    assert "agreed" not in diagnostic


def test_more_than_the_server_says_that_it_takes_is_not_handed_over(lead: Callable[..., Mailbox]) -> None:
    box = lead(most=5_000)
    assert failure(lambda: send(text="x" * 6_000))[0] == "too_large"
    assert box.mails == []


def test_a_server_that_is_not_there_is_unavailable(
    lead: Callable[..., Mailbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    lead()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SMTP_SERVER", f"127.0.0.1:{taken.getsockname()[1]}")
        assert failure(send) == ("unavailable", "no way to the server: ConnectionRefusedError")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], "unavailable"),
        (["220 hi"], "unavailable"),
        (["220 hi", "250 hi"], "unavailable"),
        (["220 hi", "250 hi", "250 ok", "250 ok"], "outcome_unknown"),
        (["220 hi", "250 hi", "250 ok", "250 ok", "354 go"], "outcome_unknown"),
        (["garbage"], "unavailable"),
    ],
)
def test_a_server_that_falls_silent_left_nothing_until_it_was_given_the_message(
    lead: Callable[..., Mailbox], monkeypatch: pytest.MonkeyPatch, lines: list[str], code: str
) -> None:
    lead("none")
    monkeypatch.setattr(SENDING, "_COMMAND_S", 0.3)
    monkeypatch.setattr(SENDING, "_DATA_S", 0.3)

    def speak(listener: socket.socket) -> None:
        wire, _ = listener.accept()
        with wire, wire.makefile("rb") as heard:
            for at, line in enumerate(lines):
                if at:
                    heard.readline()
                wire.sendall(f"{line}\r\n".encode())
            while heard.readline():
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak, args=(listener,), daemon=True)
        thread.start()
        monkeypatch.setenv("SMTP_SERVER", f"127.0.0.1:{listener.getsockname()[1]}")
        assert failure(send)[0] == code
        thread.join()


def test_it_goes_out_by_the_proxy_where_there_is_one(
    lead: Callable[..., Mailbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    box = lead()
    target = f"{mailserver.NAME}:{box.port}"
    said: list[Any] = []

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def through(listed: list[str]) -> object:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            proxy = Proxy(Allow(listed), said.append, resolve=resolve)
            await proxy.start(listener)
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
            try:
                return await asyncio.to_thread(lambda: failure(send) if len(listed) < 2 else send())
            finally:
                await proxy.close()

    monkeypatch.setenv("SMTP_SERVER", target)
    monkeypatch.setenv("SMTP_SERVER_NAME", "")
    assert asyncio.run(through(["elsewhere.test:465"])) == (
        "unavailable",
        "the proxy lets nothing through to the server (403)",
    )
    asyncio.run(through([target, f"127.0.0.1:{box.port}"]))
    assert len(box.mails) == 1
    assert {one.cause for one in said} >= {"unlisted", "listed"}


_LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1, max_size=40)


@settings(max_examples=40)
@given(_LINES, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_no_call_makes_a_header_of_its_own(subject: str, text: str) -> None:
    mail = MESSAGE.compose({**MAIL, "subject": subject, "text": text}, "ada@example.test", "Ada")
    head = mail.as_bytes().split(b"\r\n\r\n", 1)[0]
    names = [line.split(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
    assert sorted(names) == sorted(
        [b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"Content-Type",
         b"Content-Transfer-Encoding", b"MIME-Version"]
    )  # fmt: skip


# into a Maildir

BOXES = "ada@example.test=ada, @example.test=team, @example.test=copies, *=."


@pytest.fixture
def deliver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], list[tuple[str, bytes]]]]:
    """Delivers by the usual boxes, or others; what was answered, and what was handed over under which box."""

    def now(to: list[str], boxes: str = BOXES, sizes: str = "", **more: Any) -> Any:
        for variable, value in {
            "MAILDIR_SENDER": "clerk@example.test",
            "MAILDIR_SENDER_NAME": "The Clerk",
            "MAILDIR_BOXES": boxes,
            "MAILDIR_SIZES": sizes,
        }.items():
            monkeypatch.setenv(variable, value)
        call = Call()
        answer = MAILDIR.send({**MAIL, "to": to, **more}, call)
        assert TOOL.output_fault(answer) is None
        assert {setting for setting, _, _ in call.added} <= {"maildir"}
        names = [name.rpartition("/")[2] for _, name, _ in call.added]
        assert len({*names}) == len(names)
        return answer, [(name.rpartition("/")[0], data) for _, name, data in call.added]

    return now


def test_each_box_gets_one_copy_that_says_for_whom(deliver: Callable[..., Any]) -> None:
    answer, copies = deliver(
        ["ada@EXAMPLE.test", "bob@example.test"], cc=["eve@elsewhere.test"], bcc=["dan@example.test"]
    )
    assert answer["accepted"] == [
        "ada@EXAMPLE.test", "bob@example.test", "eve@elsewhere.test", "dan@example.test",
    ]  # fmt: skip
    assert answer["rejected"] == []
    assert [box for box, _ in copies] == ["ada/new", "team/new", "copies/new", "new"]
    assert len({data.split(b"\nFrom: ")[1] for _, data in copies}) == 1
    heads = (
        "Return-Path: <clerk@example.test>\nDelivered-To: bob@example.test\nDelivered-To: dan@example.test\n"
    )
    assert copies[1][1].startswith(heads.encode())
    assert b"dan@" not in copies[0][1]  # blind
    assert b"\r" not in copies[0][1]


def test_who_has_no_box_is_rejected_and_nobody_with_one_is_nobody(deliver: Callable[..., Any]) -> None:
    answer, copies = deliver(["ada@example.test", "bob@example.test"], boxes="ada@example.test=ada")
    assert (answer["accepted"], answer["rejected"]) == (["ada@example.test"], ["bob@example.test"])
    assert len(copies) == 1
    assert failure(lambda: deliver(["bob@example.test"], boxes="ada@example.test=ada")) == (
        "invalid_recipient", "no recipient has a box",
    )  # fmt: skip


def test_one_box_that_is_too_small_and_no_box_gets_anything(deliver: Callable[..., Any]) -> None:
    two = ["ada@example.test", "bob@example.test"]
    assert failure(lambda: deliver(two, sizes="copies=200"))[0] == "too_large"
    assert len(deliver(two, sizes="copies=20000, ada=30000")[1]) == 3


def test_a_message_with_a_file_is_read_by_what_reads_maildirs(
    deliver: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 \xff\x00")
    for name in ("cur", "new", "tmp"):
        (tmp_path / "box" / name).mkdir(parents=True)
    _, ((_, data),) = deliver(["ada@example.test"], attachments=[Given(tmp_path / "a.pdf")], text="Grüße\n")
    (tmp_path / "box" / "new" / "1.a.handler").write_bytes(data)
    (found,) = Maildir(tmp_path / "box", factory=lambda file: message_from_binary_file(file, policy=default))
    assert (found["Subject"], found["From"]) == ("Minutes", "The Clerk <clerk@example.test>")
    assert found.get_body().get_content().replace("\r\n", "\n") == "Grüße\n"
    assert [one.get_content() for one in found.iter_attachments()] == [b"%PDF-1.4 \xff\x00"]

"""Whatever is said to the control socket, it answers, lets go, and serves the next one."""

import json
import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.control.frames import REQUEST_HEAD_LIMIT_BYTES, Message, pack_frame
from tests.fuzz.conftest import ControlHarness, opening, sealing, writing
from tests.support.examples import examples
from tests.support.proxy_fixtures import check, records

pytestmark = [pytest.mark.proxy, pytest.mark.usefixtures("after")]

VERBS = ("open", "write", "ledger", "seal", "close", "status")
FIELDS = (
    *("verb", "page_id", "bucket", "headers", "login", "artifacts"),
    *("grace_s", "await_s", "awaited", "body", "size"),
    *("again", "limit_bytes", "url", "reason", "accept", "referer"),
)
ERRORS = {"InputError", "ConfigError", "BodyTooLargeError"}

quick = settings(max_examples=examples(60))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(VERBS)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=12,
)
messages = st.builds(
    lambda verb, more: {**more, "verb": verb},
    st.sampled_from(VERBS) | scalars,
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=7),
)


def frame(head: bytes, body: bytes = b"") -> bytes:
    """Return a frame around a head that may not be JSON."""
    return struct.pack(">I", len(head)) + head + body


@given(data=st.binary(max_size=300))
@quick
def test_random_bytes_end_the_connection_and_nothing_else(control: ControlHarness, data: bytes) -> None:
    """Bytes that are no frame are answered by one error at most."""
    client = control.client()
    answers = client.say(data)
    client.close()

    assert len(answers) <= 1
    assert {answer["error"] for answer in answers} <= ERRORS
    assert control.escaped == []


@given(document=values, body=st.binary(max_size=30))
@quick
def test_any_json_is_answered(control: ControlHarness, document: Any, body: bytes) -> None:
    """A head that is JSON, but no message, is refused."""
    client = control.client()
    client.say(frame(json.dumps(document).encode(), body))
    client.close()

    assert control.escaped == []


@given(batch=st.lists(messages, max_size=6), opened=st.booleans())
@quick
def test_any_fields_are_answered(control: ControlHarness, batch: list[Message], opened: bool) -> None:
    """Each message gets one answer, whatever its fields hold; a visit that was opened is over then."""
    client = control.client()
    answers = client.say(b"".join(map(pack_frame, [opening()] * opened + batch)))
    client.close()

    assert len(answers) == len(batch) + opened
    assert {a["error"] for a in answers if "error" in a} <= ERRORS
    assert control.escaped == []


@pytest.mark.parametrize(
    "more",
    [
        {"headers": []},
        {"headers": {"X-A": 1}},
        {"headers": {"X-A": "1\r\nHost: evil.example"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": "X-A: 1"},
        {"login": 5},
        {"login": None},
        {"login": "a\r\nWARC-Type: response"},
        {"login": "../a"},
    ],
)
def test_a_visit_is_opened_with_nothing_that_could_end_a_line(control: ControlHarness, more: dict[str, Any]) -> None:
    """Headers and logins that may not stand in a message or a record open none."""
    client = control.client()
    answer = client.ask({**opening(), **more})
    client.close()

    assert answer["error"] in ERRORS
    assert control.escaped == []


@given(cut=st.data())
@quick
def test_a_frame_cut_anywhere_ends_the_visit(control: ControlHarness, cut: st.DataObject) -> None:
    """A worker that dies in the midst of a message leaves no visit behind."""
    whole = [
        pack_frame(opening()),
        pack_frame(writing(5), b"hello"),
        pack_frame(sealing()),
        pack_frame({"verb": "status"}),
    ]
    stream = b"".join(whole)
    at = cut.draw(st.integers(0, len(stream) - 1))
    client = control.client()
    answers = client.say(stream[:at])
    client.close()

    ends = [sum(map(len, whole[: n + 1])) for n in range(len(whole))]
    assert len(answers) == sum(end <= at for end in ends)
    assert control.escaped == []


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", REQUEST_HEAD_LIMIT_BYTES + 1),
        frame(b""),
        frame(b"\xff\xfe"),
        frame(b"[" * 200_000),
        frame(b'{"verb": "status"}'),
        frame(b'{"verb": "status", "body": -1}'),
        frame(b'{"verb": "status", "body": 1e400}'),
        frame(b'{"verb": "status", "body": true}'),
        frame(b'{"verb": "status", "body": "0"}'),
        frame(b'{"verb": "status", "body": %d}' % (1 << 70)),
        frame(b'{"verb": "status", "body": ' + b"9" * 5000 + b"}"),
        frame(b'{"verb": "write", "artifacts": [], "body": 1}', b"x"),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_what_is_no_frame_is_told_so(control: ControlHarness, data: bytes) -> None:
    """Sizes that nobody should send, JSON that is none: one error, and the connection ends."""
    client = control.client()
    (answer,) = client.say(data)
    client.close()

    assert answer["error"] in ERRORS


def artifact(**changes: object) -> Message:
    """Return a message that writes one artifact with these fields changed."""
    (described,) = writing(3)["artifacts"]
    return {"verb": "write", "artifacts": [{**described, **changes}]}


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (sealing(float("nan")), b""),
        (sealing(float("inf")), b""),
        (sealing(1e300), b""),
        (sealing(-1), b""),
        (sealing([]), b""),
        ({**sealing(), "awaited": [[]]}, b""),
        (writing(5, -2), b"abc"),
        (writing(2), b"abc"),
        (writing(1e400), b"abc"),
        (writing("3"), b"abc"),
        (artifact(uri="urn:text:a\r\nWARC-Type: response"), b"abc"),
        (artifact(uri="\ud800"), b"abc"),
        (artifact(date="2026-13-01T00:00:00Z"), b"abc"),
        (artifact(date=5), b"abc"),
        (artifact(uri="urn:pageinfo:http://a.example/"), b"abc"),
        ({"verb": ["seal"]}, b""),
        ({"verb": "_end"}, b""),
        ({"verb": "seal"}, b""),
        (opening(), b""),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, dict) else "",
)
def test_a_field_out_of_range_is_refused_and_the_visit_goes_on(
    control: ControlHarness, message: Message, body: bytes
) -> None:
    """One error as the answer; the next message of the same connection is served."""
    client = control.client()
    client.ask(opening())

    assert client.ask(message, body)["error"] == "InputError"
    assert len(client.ask(writing(3), b"abc")["locations"]) == 1
    assert client.ask(sealing())["entries"]["rows"] == []
    client.close()


@pytest.mark.parametrize("name", ["page_id", "bucket"])
@pytest.mark.parametrize("value", ["a\r\nWARC-Type: response", "\x00", "\ud800", 5, None, ["p"]])
def test_what_cannot_stand_in_a_record_opens_no_visit(control: ControlHarness, name: str, value: object) -> None:
    """A page's id and bucket are text without control characters (C-12)."""
    client = control.client()

    assert client.ask({**opening(), name: value})["error"] == "InputError"
    assert "username" in client.ask(opening())
    client.close()


class SimulatedWorker:
    """A client, and what its visit must look like to it."""

    def __init__(self, control: ControlHarness) -> None:
        self.control = control
        self.client = control.client()
        self.credentials: Message | None = None
        self.open = self.sealed = False
        self.request_count = 0

    def run(self, step: str) -> None:
        """Take one step; the answer is what the visit's state asks for."""
        getattr(self, step)()

    def opens(self) -> None:
        """Open a visit; there may be one already."""
        answer = self.client.ask(opening("the same page"))
        if self.open:
            assert answer["error"] == "InputError"
        else:
            self.credentials, self.open, self.sealed, self.request_count = answer, True, False, 0

    def writes(self) -> None:
        """Write two artifacts."""
        answer = self.client.ask(writing()) if not self.open else self.client.ask(writing(2, 0), b"ab")
        assert ("locations" in answer) == self.open

    def seals(self) -> None:
        """Seal the visit, naming another's."""
        # Another visit's name and credentials in a message mean nothing.
        others = {"page_id": "another", "username": "another", "visit": 1}
        answer = self.client.ask({**sealing(), **others})
        assert ("entries" in answer) == self.open
        if self.open:
            self.sealed = True
            assert len(answer["entries"]["rows"]) == self.request_count

    def fetches(self) -> None:
        """Fetch something with the credentials of the latest visit."""
        if self.credentials is None:
            return
        browser = self.control.browser(self.credentials)
        status = browser.get("http://refused.example/").status
        browser.close()
        assert status == (407 if not self.open else 403 if self.sealed else 502)
        self.request_count += status == 502

    def closes(self) -> None:
        """Close the visit, if there is one."""
        assert self.client.ask({"verb": "close"}) == {"body": 0}
        self.open = False

    def asks(self) -> None:
        """Ask how the proxy is."""
        assert self.client.ask({"verb": "status"})["visits"] >= self.open

    def errs(self) -> None:
        """Say something malformed."""
        assert self.client.ask({"verb": "open"})["error"] == "InputError"

    def dies(self) -> None:
        """Die in the midst of a message, and come again."""
        answers = self.client.say(pack_frame(writing(500), b"x" * 500)[:-100])
        assert len(answers) == (not self.open)  # without a visit there is no room for a body
        self.client.close()
        self.client = self.control.client()
        self.open = False


STEPS = ("opens", "writes", "seals", "fetches", "closes", "asks", "errs", "dies")


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STEPS)), max_size=25))
@quick
def test_verbs_in_any_order_do_what_the_visits_state_allows(
    control: ControlHarness, steps: list[tuple[int, str]]
) -> None:
    """Three workers with one page id: each has its own visit, and none touches another's."""
    workers = [SimulatedWorker(control) for _ in range(3)]
    for number, step in steps:
        workers[number].run(step)
    for worker in workers:
        worker.client.close()

    assert control.escaped == []


def test_verbs_at_the_same_time_do_not_mix(control: ControlHarness) -> None:
    """Sixteen workers at once, each in an order of its own: every answer is its own visit's."""
    seen: list[BaseException] = []

    def work(seed: int) -> None:
        dice = random.Random(seed)
        worker = SimulatedWorker(control)
        try:
            for _ in range(25):
                worker.run(dice.choice(STEPS))
        except BaseException as error:
            seen.append(error)
        finally:
            worker.client.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == []
    assert control.escaped == []


def test_who_goes_away_during_the_seal_leaves_nothing(control: ControlHarness, after: Callable[[], None]) -> None:
    """A worker that dies while its seal waits: the visit ends with the seal."""
    client = control.client()
    client.ask(opening())
    client.socket.sendall(pack_frame(sealing()))
    client.close()
    after()


def test_hundreds_of_half_frames_hold_nobody_up(control: ControlHarness) -> None:
    """Connections that never finish their message cost themselves only."""
    idle = [control.client() for _ in range(200)]
    for client in idle:
        client.socket.sendall(b"\x00\x00\x01")
    control.check()
    for client in idle:
        client.close()


def test_what_was_written_meanwhile_is_sound(control: ControlHarness) -> None:
    """After all that, every record has a page, a type and a digest that holds."""
    control.check()
    check(control.layout)

    assert {record.kind for record in records(control.layout)} <= {"warcinfo", "resource"}

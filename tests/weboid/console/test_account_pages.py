"""Accounts, tokens and the audit log in the console."""

import pytest

from tests.support.console_server import ServedConsole
from weboid.console.accounts import ConsoleRole


@pytest.fixture(scope="module", autouse=True)
def changes(served: ServedConsole) -> None:
    """Add an operator's token, an account of an identity provider, and 150 changes to the audit log."""
    owner = served.accounts.session(served.sessions["operator"])
    assert owner is not None
    served.accounts.add_token("wiki", owner, ConsoleRole.OPERATOR, scopes=("save_capture",))
    served.accounts.sign_in_subject("provider|1", "Lin", ConsoleRole.READER)
    for number in range(150):
        served.accounts.log("Grace", "pause_host", {"host": f"<b>{number}.example"}, "done")


def test_accounts_and_tokens_are_listed(console: ServedConsole) -> None:
    """One's own account has no button that removes it; secrets are never shown."""
    console.role = "admin"

    text = console.get("/users").text

    assert "identity provider" in text
    assert "save_capture" in text
    assert text.count('action="/do/remove_user"') == 5
    assert 'action="/do/remove_token"' in text
    assert 'action="/do/set_user"' in text


def test_others_see_their_own_tokens_only(console: ServedConsole) -> None:
    """Of accounts nothing; a token cannot have a higher role than its owner."""
    console.role = "curator"
    without = console.get("/users").text
    console.role = "operator"

    text = console.get("/users").text

    assert "Grace" not in text
    assert "save_capture" in text
    assert "save_capture" not in without
    assert 'value="operator"' in text
    assert 'value="admin"' not in text


def test_the_audit_log_is_read_in_parts(console: ServedConsole) -> None:
    """Newest first, with what was changed; markup stays text."""
    console.role = "admin"
    text = console.get("/audit").text
    older = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    rest = console.get(older.removeprefix("/console")).text

    assert text.count('<th scope="row">') == 100
    assert (text + rest).count("pause_host") == 150
    assert "<b>149" not in text
    assert 'rel="next"' not in rest


def test_the_audit_log_names_operations_and_results_in_the_readers_language(console: ServedConsole) -> None:
    """Those of the API, and the others that are logged."""
    console.role = "admin"
    console.accounts.log("Grace", "set_host_delay", {"host": "a.example"}, "refused: no such host")
    console.accounts.log("Grace", "upload_file", {"name": "a.warc.gz"}, "done")

    english, german = console.get("/audit").text, console.get("/de/console/audit").text

    assert ">Set the delay of a host and its subdomains<" in english
    assert "Refused: no such host" in english
    assert ">Upload a file<" in english
    assert ">Abstand der Besuche eines Hosts und seiner Subdomains festlegen<" in german
    assert "Abgelehnt: no such host" in german
    assert ">Datei hochladen<" in german

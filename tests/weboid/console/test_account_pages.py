"""Accounts, tokens and the audit log in the console."""

from tests.support.console_server import Console


def test_accounts_and_tokens_are_listed(console: Console) -> None:
    """One's own account has no button that removes it; secrets are never shown."""
    console.user.role = "admin"

    text = console.get("/users").text

    assert "identity provider" in text
    assert "save_capture" in text
    assert text.count('action="/do/remove_user"') == 1
    assert 'action="/do/remove_token"' in text
    assert 'action="/do/set_user"' in text


def test_others_see_their_own_tokens_only(console: Console) -> None:
    """Of accounts nothing; a token cannot have a higher role than its owner."""
    console.user.role = "curator"

    text = console.get("/users").text

    assert "Grace" not in text
    assert "save_capture" in text  # of a token of Ada's
    assert 'value="curator"' in text
    assert 'value="operator"' not in text


def test_the_audit_log_is_read_in_parts(console: Console) -> None:
    """Newest first, with what was changed; markup stays text."""
    text = console.get("/audit").text
    older = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    rest = console.get(older.removeprefix("/console")).text

    assert text.count("pause_host") == 100
    assert rest.count("pause_host") == 50
    assert "<b>refuses" not in text
    assert 'rel="next"' not in rest

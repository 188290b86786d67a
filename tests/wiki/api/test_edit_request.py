"""Meaning of a wiki's refusal of an edit: by the API's codes, which no one wiki gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import PermanentError
from wiki.api.client import WikiApi
from wiki.api.edit_request import (
    EditConflictError,
    EditingStoppedError,
    EditRefusal,
    PageDeletedError,
    PageRefusedError,
    edit_error,
    edit_objection,
    may_message,
)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("protectedpage", EditRefusal.PROTECTED),
        ("cascadeprotected", EditRefusal.PROTECTED),
        ("protectednamespace-interface", EditRefusal.PROTECTED),
        ("blockedfrompage", EditRefusal.BLOCKED_HERE),
        ("abusefilter-disallowed", EditRefusal.FILTERED),
        ("abusefilter-warning", EditRefusal.FILTERED),
        ("spamblacklist", EditRefusal.SPAM),
        ("titleblacklist-forbidden-edit", EditRefusal.TITLE),
        ("captcha", EditRefusal.CAPTCHA),
        ("contenttoobig", EditRefusal.TOO_BIG),
        ("no-direct-editing", EditRefusal.MODEL),
        ("hookaborted", EditRefusal.OTHER),
    ],
)
async def test_what_concerns_one_page_is_told_of_that_page(code: str, reason: EditRefusal) -> None:
    """The next page may be tried."""
    error = await edit_error(WikiApi("http://127.0.0.1:1/api.php"), code, "said so")

    assert isinstance(error, PageRefusedError)
    assert isinstance(error, PermanentError)
    assert str(error).startswith(f"The page cannot be edited ({reason}): ")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("editconflict", EditConflictError),
        ("missingtitle", PageDeletedError),
        ("pagedeleted", PageDeletedError),
        ("nosuchpageid", PageDeletedError),
        ("noedit", EditingStoppedError),
        ("writeapidenied", EditingStoppedError),
        ("confirmemail", EditingStoppedError),
        ("something-new", EditingStoppedError),
        ("", EditingStoppedError),
    ],
)
async def test_what_is_not_about_a_page_stops_or_starts_again(code: str, error: type[Exception]) -> None:
    """Unknown errors stop the bot: one that is refused needs a human decision."""
    assert isinstance(await edit_error(WikiApi("http://127.0.0.1:1/api.php"), code, "said so"), error)


# What each template says to the bot "Weboid", as the template's documentation has it.
VECTORS = {
    "": True,
    "robots are nice": True,
    "{{bots}}": True,
    "{{nobots}}": False,
    "{{Nobots}}": False,
    "{{ nobots }}": False,
    "{{template:nobots}}": False,
    "{{Vorlage:Nobots}}": False,
    "{{nobots|Weboid}}": False,
    "{{nobots|Other, AWB}}": True,
    "{{nobots|all}}": False,
    "{{bots|allow=all}}": True,
    "{{bots|allow=none}}": False,
    "{{bots|deny=all}}": False,
    "{{bots|deny=none}}": True,
    "{{bots|allow=Weboid}}": True,
    "{{bots|allow=Other,Weboid}}": True,
    "{{bots|allow=Other, weboid }}": True,
    "{{bots|allow=Other}}": False,
    "{{bots|allow=Other,AWB}}": False,
    "{{bots|allow=WeboidTwo}}": False,
    "{{bots|deny=Weboid}}": False,
    "{{bots|deny=Other,Weboid}}": False,
    "{{bots|deny=User:Weboid}}": False,
    "{{bots|deny=Other}}": True,
    "{{bots|deny=Weboid|allow=all}}": False,
    "{{bots|allow=Weboid|deny=all}}": False,
    "{{Bots |allow= |deny= }}": True,
    "{{bots\n|deny = Weboid\n}}": False,
    "{{BOTS|DENY=weboid}}": False,
    "{{bots|deny=A}}{{bots|deny=Weboid}}": False,
    "{{bots|allow=Weboid}}{{bots|allow=B}}": False,
    "{{bots|optout=all}}": False,
    "{{bots|optout=deadlink}}": True,
    "{{bots|optout=nosource}}": True,
    "{{bots|deny={{x}}}}": False,
    "{{bots|deny=Other": False,
    "{{nobots": False,
    "{{nobotsplease}}": True,
    "{{botswana}}": True,
    "{{tl|nobots}}": True,
    "[[Template:nobots]]": True,
    "<!-- {{nobots}} -->": True,
    "<nowiki>{{nobots}}</nowiki>": True,
    "<!-- <nowiki> --> {{nobots}} <!-- </nowiki> -->": False,
    "<nowiki/>{{nobots}}": False,
    "<!-- {{nobots}}": True,
}


@pytest.mark.parametrize("text", VECTORS)
def test_a_page_says_who_may_edit_it(text: str) -> None:
    """Every form of the templates; what cannot be read is a no."""
    assert (not edit_objection(text, "Weboid")) is VECTORS[text]


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("{{bots|optout=deadlink}}", False),
        ("{{bots|optout=nosource,iabot}}", False),
        ("{{bots|optout=nosource}}", True),
        ("{{bots|optout=all}}", False),
        ("{{nobots}}", False),
        ("", True),
    ],
)
def test_a_talk_page_says_what_messages_it_wants(text: str, is_wanted: bool) -> None:
    """``optout=`` names kinds of messages (B16)."""
    assert may_message(text, "Weboid") is is_wanted


def test_spaces_and_underscores_are_the_same_in_names() -> None:
    """As everywhere in a wiki."""
    assert edit_objection("{{bots|deny=link_keeper}}", "Link Keeper")


@pytest.mark.parametrize("text", ["{{in use}}", "{{In_use|1 h}}", "{{Inuse}}", "{{In Bearbeitung|x}}"])
def test_a_page_that_is_being_worked_on_is_known(text: str) -> None:
    """The bot comes back later."""
    assert edit_objection(text, "Weboid") == "{{in use}}"
    assert not edit_objection(f"<nowiki>{text}</nowiki>", "Weboid")


@given(st.text("{}|=bots no<!->nwik/\n", max_size=200))
def test_any_text_is_answered(text: str) -> None:
    """Whatever stands there, there is an answer, and a ban in front of it holds."""
    edit_objection(text, "Weboid")
    assert edit_objection("{{nobots}}" + text, "Weboid")


def test_a_hostile_page_takes_no_time() -> None:
    """Half a megabyte of openings are read in one go."""
    for piece in ("<!--", "{{bots|", "<nowiki>", "{{bots", "<pre "):
        edit_objection(piece * (500_000 // len(piece)), "Weboid")

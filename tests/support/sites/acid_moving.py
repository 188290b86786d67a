"""Acid cells that lead elsewhere, and those whose letters are coded: a page each."""

from tests.support.sites import hosts
from tests.support.sites.acid_cell import ORIGIN, AcidCell, at, document, html
from tests.support.sites.http1 import Answer, SiteReply, response

_HEADS = {
    "to-301": (301, "/landed/to-301"),
    "to-302": (302, "/landed/to-302"),
    "to-303": (303, "/landed/to-303"),
    "to-307": (307, "/landed/to-307"),
    "to-308": (308, "/landed/to-308"),
    "to-chain": (301, "/moved/302/moved/303/moved/307/moved/308/landed/to-chain"),
    "to-other-host": (302, f"https://{hosts.APART}/landed/to-other-host"),
    "to-plain-http": (302, f"http://{hosts.APART}/landed/to-plain-http"),
    "to-fragment": (302, "/landed/to-fragment#part"),
    "to-relative": (302, "../landed/./to-relative?q=a%20b"),
}
_PAGES = {
    "by-meta": ("<meta http-equiv=refresh content='0; url=/landed/by-meta'>", ""),
    "by-location": ("", "location.href = '/landed/by-location'"),
    "by-replace": ("", "setTimeout(() => location.replace('/landed/by-replace'), 50)"),
    "by-form": (
        "",
        "const form = document.createElement('form'); form.method = 'post';"
        "form.action = '/landed/by-form'; document.body.append(form); form.submit();",
    ),
}
_WORDS = "Füße ¿qué? ďábel 日本語"


def _landed(name: str) -> SiteReply:
    body = f"<img {at(0)} src=/landed/{name}.png><p id=part>landed {name}</p>"
    return html(document(name, body))


def _redirect(name: str, status: int, location: str) -> AcidCell:
    path = location.partition("#")[0]
    host = "" if "://" in path else ORIGIN
    target = host + path.replace("../landed/./", "/landed/")
    if name == "to-chain":
        target = f"{ORIGIN}/landed/to-chain"
    origin = target.partition("/landed/")[0]
    must = [target, f"{origin}/landed/{name}.png"]
    if name == "to-chain":
        must += [f"{ORIGIN}{path}", f"{ORIGIN}/moved/303/moved/307/moved/308/landed/to-chain"]
    return AcidCell(
        name,
        response(status, b"", headers=(("Location", location),)),
        files={f"/landed/{name}": _landed(name)},
        must=tuple(must),
        text=f"landed {name}",
        end=target,
    )


def _by_page(name: str, head: str, script: str) -> AcidCell:
    target = f"{ORIGIN}/landed/{name}"
    return AcidCell(
        name,
        html(document(name, "<p>Moved.", head=head, script=script)),
        files={f"/landed/{name}": _landed(name)},
        must=(target, f"{ORIGIN}/landed/{name}.png"),
        text=f"landed {name}",
        end=target,
    )


def _letters(name: str, codec: str, words: str, *, header: str = "", meta: str = "") -> AcidCell:
    text = document(name, f"<p>{words}</p><div id=m0 {at(0)}></div>", script=_check(words))
    text = text.replace("<meta charset=utf-8>", f"<meta charset={meta}>" if meta else "")
    page: Answer = response(
        body=text.encode(codec), content_type=f"text/html; charset={header}" if header else "text/html"
    )
    return AcidCell(name, page, text=words)


def _check(words: str) -> str:
    # The script itself is in ASCII, whatever the page's encoding.
    codes = ",".join(str(ord(letter)) for letter in words)
    return f"if (document.querySelector('p').textContent === String.fromCharCode({codes})) green(0);"


_STAYS = (
    AcidCell(
        "by-meta-later",
        html(
            document(
                "by-meta-later",
                f"<img {at(0)} src=/by-meta-later/now.png><p>You will be taken on.",
                head="<meta http-equiv=refresh content='5; url=/landed/by-meta-later'>",
            )
        ),
        files={"/landed/by-meta-later": _landed("by-meta-later")},
        must=(f"{ORIGIN}/by-meta-later/now.png",),
    ),
    AcidCell(
        "by-refresh-header",
        response(
            body=document("by-refresh-header", "<p>Moved."), headers=(("Refresh", "0; url=/landed/by-refresh-header"),)
        ),
        files={"/landed/by-refresh-header": _landed("by-refresh-header")},
        must=(f"{ORIGIN}/landed/by-refresh-header", f"{ORIGIN}/landed/by-refresh-header.png"),
        text="landed by-refresh-header",
        end=f"{ORIGIN}/landed/by-refresh-header",
    ),
    AcidCell(
        "push-state",
        html(
            document(
                "push-state",
                f"<div id=m0 {at(0)}></div>",
                script="history.pushState({}, '', '/push-state/pushed/page'); show(0, 'pushed.png');",
            )
        ),
        must=(f"{ORIGIN}/push-state/pushed/pushed.png",),
    ),
)

MOVING: tuple[AcidCell, ...] = (
    *(_redirect(name, *value) for name, value in _HEADS.items()),
    *(_by_page(name, *value) for name, value in _PAGES.items()),
    *_STAYS,
    _letters("utf-8", "utf-8", _WORDS, meta="utf-8"),
    _letters("utf-16", "utf-16", _WORDS),
    _letters("windows-1252", "windows-1252", "Füße ¿qué? “so” €", meta="windows-1252"),
    _letters("shift-jis", "shift_jis", "日本語のページ", header="Shift_JIS", meta="utf-8"),
)

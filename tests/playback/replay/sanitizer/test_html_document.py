"""The sanitiser: what stays, what goes, and that it settles at once."""

import io
import json
import re
import subprocess
from base64 import b64decode
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from core.url_keys import replay_key
from playback.replay.sanitizer.allowlist import FORMULA_ELEMENTS
from playback.replay.sanitizer.prescan import write_formula
from tests.support.examples import examples
from tests.support.playback_fixtures import PYWB_PYTHON

pytestmark = pytest.mark.playback

Call = Callable[[str, list[object]], Any]

# Elements, attributes and schemes that run, load, send or navigate.
_HARMFUL_TAGS = frozenset(
    {"script", "iframe", "frame", "frameset", "object", "embed", "applet", "svg", "math", "style",
     "link", "meta", "base", "template", "form", "source", "track", "portal",
     "noscript", "xmp", "plaintext", "marquee", "param", "title"}
)  # fmt: skip
_URL_ATTRIBUTES = frozenset({"href", "src", "srcset", "background", "poster"})

VECTORS = [
    "<script>alert(1)</script>",
    "<ScRiPt/x>alert(1)</sCrIpT >",
    "<img src=x onerror=alert(1)>",
    "<img/src='x'/onerror=alert(1)//",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
    "<svg><animate attributeName=href values=javascript:alert(1) /></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=alert(1)>'>",
    "<math><annotation-xml encoding='text/html'><script>alert(1)</script></annotation-xml></math>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<style><img src='</style><img src=x onerror=alert(1)//'>",
    "<title><img src='</title><img src=x onerror=alert(1)>'></title>",
    "<textarea><img title='</textarea><img src=x onerror=alert(1)>'></textarea>",
    "<xmp><img title='</xmp><img src=x onerror=alert(1)>'></xmp>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!-- --!><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href=' java\tscript:alert(1)'>x</a>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<a href=data:text/html,<script>alert(1)</script>>x</a>",
    "<a href=vbscript:x>x</a>",
    "<area href=javascript:alert(1)>",
    "<img src=javascript:alert(1)>",
    "<img src='data:image/svg+xml;base64,PHN2Zz4='>",
    "<img src='data:text/html;base64,PHNjcmlwdD4='>",
    "<body background=javascript:alert(1) onload=alert(1)>",
    "<table background=javascript:alert(1)>",
    "<div style='background:url(javascript:alert(1))'>x</div>",
    "<div style='width:expression(alert(1))'>x</div>",
    "<div style='-moz-binding:url(//evil.example/x)'>x</div>",
    "<div style='behavior:url(//evil.example/x)'>x</div>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=//evil.example/x.swf>",
    "<applet code=x></applet>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0,url=javascript:alert(1)'>",
    "<meta http-equiv=set-cookie content=a=b>",
    "<link rel=stylesheet href=//evil.example/x>",
    "<link rel=preload as=script href=//evil.example/x>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<button formaction=javascript:alert(1)>x</button>",
    "<input type=image src=//evil.example/x formaction=javascript:alert(1)>",
    "<isindex type=image src=x onerror=alert(1)>",
    "<video poster=javascript:alert(1) src=//evil.example/x onerror=alert(1)>",
    "<audio src=//evil.example/x autoplay>",
    "<picture><source srcset=//evil.example/x><img src=y></picture>",
    "<img srcset='//evil.example/x 2x'>",
    "<img srcset='//evil.example/x 2w' sizes='10000px'>",
    "<a ping=//evil.example/x href=//example.org/>x</a>",
    "<template><script>alert(1)</script></template>",
    "<template shadowrootmode=open><script>alert(1)</script><img src=x onerror=alert(1)></template>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<details open ontoggle=alert(1)>x</details>",
    "<select><style></select><img src=x onerror=alert(1)></style></select>",
    "<p id='x' onclick='alert(1)' autofocus onfocus=alert(1) tabindex=1>x",
    "<input autofocus onfocus=alert(1)>",
    "<keygen autofocus onfocus=alert(1)>",
    "<x-element onclick=alert(1)>x</x-element>",
    "<portal src=//evil.example/></portal>",
    "<script type=speculationrules>{}</script>",
    "<plaintext><script>alert(1)</script>",
    "\x00<scr\x00ipt>alert(1)</scr\x00ipt>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "<a href='https://evil.example/'target=_blank>x</a>",
    "<style>@import '//evil.example/x';</style>",
    "<style>*{background:url(//evil.example/x)}</style><p>x",
    "<div style=\"background:u\\72l(//evil.example/x)\">x</div>",
    "<font color='red\" onclick=\"alert(1)'>x</font>",
    "<a name='x' href='https://a.example/%22%3E%3Cscript%3Ealert(1)%3C/script%3E'>x</a>",
    "<a href='https://a.example/\"><script>alert(1)</script>'>x</a>",
]  # fmt: skip


class _MarkupAudit(HTMLParser):
    """Notes what of a sanitised document could run, load from elsewhere, or lead elsewhere."""

    def __init__(self, allowed_tags: frozenset[str] = frozenset()) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self._allowed = allowed_tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HARMFUL_TAGS - self._allowed:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in {"autoplay", "srcdoc", "ping", "action", "formaction"}:
                self.faults.append(f"{tag} {name}")
            address = (value or "").removesuffix(" 2w") if name == "srcset" else value or ""
            if name in _URL_ATTRIBUTES and not _is_ours(address):
                self.faults.append(f"{tag} {name}={value}")
            if name == "style":
                self._check_style(value or "")

    def handle_data(self, data: str) -> None:
        if self.get_starttag_text() and self.cdata_elem == "style":
            self._check_style(data)

    def _check_style(self, text: str) -> None:
        for url in re.findall(r"url\(\s*[\"']?(.*?)[\"']?\s*\)", text, re.IGNORECASE):
            if not _is_ours(url):
                self.faults.append(f"url({url})")


def _is_ours(url: str) -> bool:
    return (
        re.match(
            r"#|/c/20260301120000(im|cs|me)_/http|http://front\.test/page/20260301120000/http"
            r"|data:image/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+$",
            url,
        )
        is not None
    )


def faults_of(text: str, allowed: frozenset[str] = frozenset()) -> list[str]:
    """Return the faults of sanitised markup: what could run, load from elsewhere or lead elsewhere."""
    audit = _MarkupAudit(allowed)
    audit.feed(text)
    audit.close()
    return audit.faults


@pytest.mark.parametrize("vector", VECTORS)
def test_no_vector_survives(in_replay: Call, vector: str) -> None:
    """Nothing runs, nothing loads from elsewhere, nothing leads elsewhere (P-01, P-02)."""
    whole = frozenset({"style", "link", "meta", "title", "math"})  # our own: the skeleton, formulas

    assert faults_of(in_replay("body", [vector])) == []
    document = in_replay("document", [vector])
    assert faults_of(document, whole) == []
    assert document.count("<meta") == 1


def test_the_audit_itself_sees_harm() -> None:
    """A check that finds nothing anywhere would prove nothing."""
    assert all(
        faults_of(vector)
        for vector in VECTORS
        if vector.endswith(">") and re.match(r"<(script|img|svg|iframe|a |object|base|meta|form)", vector)
    )


_PIECES = st.lists(
    st.one_of(
        st.sampled_from(VECTORS),
        st.sampled_from(
            ["<p>", "</p>", "<table>", "<tr><td>", "</table>", "<b><i>", "</b>", "<a href=x>",
             "<select>", "<option>", "<math>", "<svg>", "</svg>", "<style>", "</style>", "<!--",
             "-->", "<div style='color:red;background:url(y.png)'>", "&lt;", "&amp;quot;", "<",
             "'\"", "<template>", "</template>", "<pre>\n\n", "<li>", "<br/>", "<form>", "</p><p>",
             "<textarea>\n", "<img data-weboid-src=z.png>", "<ruby><rt>", "<h1><h2>", "<dd>"]
        ),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    ),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=examples(70))
@given(_PIECES)
def test_whatever_comes_in_only_what_is_allowed_comes_out(in_replay: Call, text: str) -> None:
    """Broken, nested and hostile markup alike."""
    assert faults_of(in_replay("body", [text])) == []


@pytest.mark.parametrize("vector", VECTORS)
def test_sanitising_twice_changes_nothing(in_replay: Call, vector: str) -> None:
    """A parser that reads the result differently than it was written could be deceived (P-02)."""
    once, twice = in_replay("body_twice", [vector])

    assert twice == once


class _ContentCollector(HTMLParser):
    """The start tags that say anything, and the characters of the text in any order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[tuple[object, ...]] = set()
        self.characters: list[str] = []
        self.feed(text)
        self.close()
        self.characters.sort()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if attrs:
            self.tags.add((tag, *sorted(attrs)))

    def handle_data(self, data: str) -> None:
        self.characters += "".join(data.split())


@settings(max_examples=examples(70))
@given(_PIECES)
@example("<a href=x><table><a href=x>")
def test_reading_the_result_again_adds_nothing_to_it(in_replay: Call, text: str) -> None:
    """Broken markup may settle only at the second reading, by HTML's own rules (13.2.6.1).

    Then elements move or are repeated. No attribute, no element that has one and no text comes new.
    """
    once, twice = map(_ContentCollector, in_replay("body_twice", [text]))

    assert twice.tags <= once.tags
    assert twice.characters == once.characters


def test_what_makes_a_page_readable_stays(in_replay: Call) -> None:
    """Text, structure, tables, classes, identifiers and languages."""
    markup = (
        '<h1 id="top" class="a b">T</h1><p lang="ar" dir="rtl">x<sup>1</sup></p>'
        '<table><tbody><tr><td colspan="2" bgcolor="#eee" align="right">y</td></tr></tbody></table>'
        "<ul><li>z</li></ul><figure><figcaption>c</figcaption></figure>"
        '<details open=""><summary>s</summary></details><p data-theme="dark" aria-label="l">q</p>'
    )

    assert in_replay("body", [markup]) == markup


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("<html data-weboid-written='href'>", 'data-weboid-written-href="/a"'),
        ("<html data-weboid-written=''>", ""),  # no style sheet selects by one
        ("", 'data-weboid-written-href="https://page.example/a"'),  # of an earlier version
    ],
)
def test_what_a_page_wrote_stands_beside_its_rewritten_value(in_replay: Call, marked: str, written: str) -> None:
    """From the DOM artifact where style sheets select by it, else as it is in the document."""
    as_written = " data-weboid-written-href=/a" if "href" in marked else ""
    text = in_replay("document", [f"{marked}<a{as_written} href=https://page.example/a>a</a>"])

    (link,) = re.findall(r"<a [^>]*>", text)
    assert 'href="http://front.test/page/' in link
    assert written in link
    assert ("data-weboid-written" in link) == bool(written)


def test_written_values_lead_nowhere(in_replay: Call) -> None:
    """They are cut, escaped, and of listed names only; nothing is loaded by one."""
    text = in_replay(
        "document",
        [f"<html data-weboid-written><a href='javascript:x' data-weboid-written-href='javascript:x()' data-weboid-written-onload=x data-weboid-x=y>a</a><img src='data:{'x' * 9000}'>"
         "<img data-weboid-written-src='\"><b onclick=x>' src=y>"],
    )  # fmt: skip

    assert 'href="#weboid-nowhere"' in text
    assert 'target="_self"' in text
    assert 'data-weboid-written-href="javascript:"' in text
    assert "onload" not in text
    assert "data-weboid-x" not in text
    assert len(text) < 5000
    assert 'data-weboid-written-src="&quot;&gt;&lt;b onclick=x&gt;"' in text


def test_forms_are_shown_and_do_nothing(in_replay: Call) -> None:
    """Controls are part of the look, but none can be used, and no password field exists (P-07)."""
    text = in_replay(
        "body",
        ['<form action=x><input name=q value=v><input type=password><button>go</button>'
         "<select><option selected>a</option></select><textarea>t</textarea></form>"],
    )  # fmt: skip

    assert text == (
        '<input name="q" value="v" disabled=""><input disabled=""><button disabled="">go</button>'
        '<select disabled=""><option selected="">a</option></select>'
        '<textarea disabled="">t</textarea>'
    )


def test_controls_without_text_are_inert(in_replay: Call) -> None:
    """A browser would grey them, were they disabled; those that were disabled still are."""
    text = in_replay(
        "body",
        ["<input type=checkbox checked inert=x><input type=RANGE min=1 max=3 value=2 disabled data-weboid-disabled>"
         "<input type=radio name='a type=\"range\" disabled=\"\"'><input type=file><input title='type=\"radio\"'>"],
    )  # fmt: skip

    assert [tag.endswith('inert="">') for tag in re.findall("<input [^>]*>", text)] == [
        True, False, True, False, False
    ]  # fmt: skip
    assert text.count(' disabled=""') == 3
    assert 'min="1" max="3"' in text
    assert "&quot;range&quot; disabled=&quot;" in text


def test_controls_look_as_they_did_though_none_can_be_used(in_replay: Call) -> None:
    """Rules for what is disabled hold for what was disabled then, however they are written."""
    text = in_replay(
        "document",
        ["<style>button:disabled{color:red}\nb>c:not( :enabled ){color:lime}"
         "select[disabled],.a\\:disabled{color:blue}</style>"
         "<button disabled>was</button><button>was not</button>"
         "<select DISABLED></select><fieldset disabled=''></fieldset><style>input:read-only{color:red}</style><input disabled=disabled>"
         "<textarea disabled name=t>t</textarea><p disabled data-weboid-disabled=x>"],
    )  # fmt: skip

    assert "button[data-weboid-disabled]{color:red;}" in text
    assert "select[data-weboid-disabled],.a\\:disabled{color:blue;}" in text
    assert ":enabled" not in text.replace("\\:", "")
    marked = [tag for tag in re.findall(r"<\w+ [^>]*>", text) if " data-weboid-disabled" in tag]
    assert [tag.split()[0] for tag in marked[:5]] == [
        "<button", "<select", "<fieldset", "<input", "<textarea"
    ]  # fmt: skip
    assert text.count(' disabled=""') == 5
    assert "input:not(:where(input,textarea):not([readonly],[data-weboid-disabled])){color:red;}" in text


def test_shadow_trees_stand_open(in_replay: Call) -> None:
    """Content that scripts would show is shown as far as a page without scripts can."""
    text = in_replay(
        "document",
        ["<x-a><template shadowrootmode=open><p>shadow</p><style>p{color:red}</style></template>"
         "</x-a><template><p>t</template>"],
    )  # fmt: skip

    assert "<div><p>shadow</p></div>" in text
    assert "color:red" not in text
    assert "<p>t" not in text


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<video poster=p.jpg width=9 autoplay onplay=x><source src=v.mp4 type=video/mp4><source src=w.webm>"
         "fallback<script>1</script><track src=t.vtt></video>",
         '<video poster="{im}p.jpg" width="9" preload="none" src="{me}v.mp4"></video>'),
        ("<video controls src=a.mp4 data-weboid-src=b.mp4>", '<video controls="" src="{me}b.mp4" preload="metadata"></video>'),
        ("<audio controls loop preload=none src=s.wav crossorigin>x</audio>",
         '<audio controls="" loop="" preload="none" src="{me}s.wav"></audio>'),
        ("<video src=blob:x poster=javascript:x></video>", '<video preload="none"></video>'),
        ("<audio src=data:audio/wav;base64,AAAA>", '<audio preload="metadata"></audio>'),
    ],
)  # fmt: skip
def test_films_and_sound_come_from_the_archive(in_replay: Call, markup: str, expected: str) -> None:
    """By a route of ours, when a reader wants them; below the level of images there are none."""
    base = "https://page.example/dir/"
    wanted = expected.format(im=f"/c/20260301120000im_/{base}", me=f"/c/20260301120000me_/{base}")
    page = f"<html data-weboid-written>{markup}<p>after"

    assert f"{wanted}<p>after</p>" in in_replay("document", [page])
    for level in ("html", "limited", "text"):
        below = in_replay("document", [page, True, level])
        assert "/c/" not in below
        assert "fallback" not in below
        assert "after" in below


def test_the_title_and_the_root_attributes_are_escaped(in_replay: Call) -> None:
    """Nothing archived stands in the skeleton as markup."""
    text = in_replay(
        "document",
        ["<html lang='x\"><script>1</script>' class='&quot;><b>' onload=x><title>a&lt;/title>"
         "<script>2</script></title><body style='position:fixed;color:red' bgcolor='\">'>"],
    )  # fmt: skip

    assert "<script>" not in text
    assert "onload" not in text
    assert 'style="position:absolute;color:red;"' in text
    assert faults_of(text, frozenset({"style", "link", "meta", "title"})) == []


def test_a_base_element_directs_urls_and_is_left_out(in_replay: Call) -> None:
    """Relative URLs of a source page mean what its base says."""
    text = in_replay("document", ["<base href=/other/><img src=i.png><a href=l>x</a>", False])

    assert 'src="/c/20260301120000im_/https://page.example/other/i.png"' in text
    assert "/https://page.example/other/l" in text
    assert "<base" not in text


@pytest.mark.parametrize(
    "text",
    [
        "<div>" * 5_000,
        "<a " + "x=1 " * 50_000 + ">",
        "<!--" * 50_000,
        "<style>" * 20_000,
        "<a href='" * 20_000,
        "<img src=" + "a" * 500_000 + ">",
        "<p style='" + "color:red;" * 20_000 + "'>",
        "<p style='" + "(" * 50_000 + "'>",
        "<style>" + "a{" * 20_000 + "</style>",
        "<" * 60_000,
        "&" * 50_000,
    ],
    ids=range(11),
)
def test_a_document_made_to_be_slow_is_not(in_replay: Call, text: str) -> None:
    """Time grows with the length, not with its square, and no depth overflows the stack (P-21)."""
    assert "</html>" in in_replay("document", [text])


def test_artifacts_are_keyed_as_pywb_keys_them() -> None:
    """A urn is lower-cased, loses fragment, empty query and last slash, and its query is sorted."""
    urls = [
        "urn:dom:https://Example.org/A?b=C&A=1#frag",
        "urn:view:https://example.org/",
        "urn:fullPage:https://Example.org/#!/x",
        "urn:text:http://www.Example.org:80/a//b/../c?",
        "urn:thumbnail:https://example.org/%7Ea%23b",
        "https://www.Example.org/A/?b=2&a=1#top",
    ]
    program = (
        "import json, sys; from pywb.utils.canonicalize import canonicalize;"
        " print(json.dumps([canonicalize(url) for url in sys.argv[1:]]))"
    )
    keys = subprocess.run([PYWB_PYTHON, "-c", program, *urls], stdout=subprocess.PIPE, check=True)

    assert json.loads(keys.stdout) == [replay_key(url) for url in urls]


def framed(document: str, *, element: str = "iframe", attributes: str = "") -> str:
    """Return a page as the DOM artifact stores it, with `document` in a frame."""
    return (
        f'<body><{element} src="https://frame.example/in/" {attributes} '
        f'data-weboid-document="{escape(document)}"></{element}></body>'
    )


_WHOLE = frozenset({"math", "style", "link", "meta", "title"})


class _FrameCollector(HTMLParser):
    """The frames of a document: their attributes, and the documents in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.frames: list[dict[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.frames.append(dict(attrs))


@pytest.mark.parametrize("vector", VECTORS)
def test_no_vector_survives_within_a_frame(in_replay: Call, vector: str) -> None:
    """Framed documents are sanitised in the same way, two frames deep (P-01)."""
    outer = in_replay("document", [framed(framed(vector))])
    (middle,) = _FrameCollector(outer).frames
    (inner,) = _FrameCollector(middle["srcdoc"] or "").frames

    for frame in (middle, inner):
        assert frame["sandbox"] == "allow-top-navigation-by-user-activation"
        assert set(frame) - {"data-weboid-written-src"} == {"sandbox", "srcdoc"}
    assert faults_of(inner["srcdoc"] or "", _WHOLE) == []


def test_a_frame_is_shown_in_its_place_with_its_own_urls(in_replay: Call) -> None:
    """Relative URLs are the frame's own; size and style stay, and nothing else of the element."""
    page = framed("<img src=i.png>", attributes='width=9 style="color:red;x:y" onload=x name=n')
    (frame,) = _FrameCollector(in_replay("document", [page])).frames

    assert (frame["width"], frame["style"]) == ("9", "color:red;")
    assert not {"onload", "name", "src"} & set(frame)
    assert "im_/https://frame.example/in/i.png" in (frame["srcdoc"] or "")


def test_frames_are_shown_of_our_own_artifact_only(in_replay: Call) -> None:
    """A source page that says it holds one has no frame; neither does a fifth level."""
    deep = "<p>core"
    for _ in range(9):
        deep = framed(deep)

    assert "<iframe" not in in_replay("document", [framed("<p>x"), False])
    assert "core" not in in_replay("document", [deep])
    assert in_replay("document", [framed("<p>x") * 80]).count("<iframe") == 50


def test_objects_stand_as_what_was_seen_of_them(in_replay: Call) -> None:
    """A picture, a document, or else what stands in for what no browser shows."""
    picture = in_replay("document", ["<object data=a.png type=image/png><b>no</b></object>"])
    embedded = in_replay("document", ["<embed src=b.gif>"])
    fallback = in_replay("document", ["<object data=c.swf type=x/y><b>instead</b></object>"])
    button = in_replay("document", ["<input type=image src=d.png alt=go>"])
    framing = in_replay("document", [framed("<p>in", element="object")])
    # As a document it would be cut off where frames are; as a picture it is as high as it is.
    drawn = "<object data=a.svg type=image/svg+xml width=100% data-weboid-document='&lt;svg>'>"
    drawing = in_replay("document", [drawn])

    assert "im_/https://page.example/dir/a.png" in picture
    assert "im_/https://page.example/dir/b.gif" in embedded
    assert "<b>instead</b>" in fallback
    assert "im_/https://page.example/dir/d.png" in button
    assert len(_FrameCollector(framing).frames) == 1
    assert "im_/https://page.example/dir/a.svg" in drawing
    assert _FrameCollector(drawing).frames == []


def test_formulas_keep_their_structure(in_replay: Call) -> None:
    """MathML of listed elements and attributes, closed in order; at text levels what it says."""
    markup = (
        "<p>a <math class=m display=block style='color:red;position:fixed;background:url(//evil.example/x)'"
        " onclick=x><mfrac class='url(x)' style='width:expression(1)' linethickness='2px;'><mi mathvariant='bold'>x</mi>"
        "<mrow><mo>&lt;</mo><mtext><b>in</b> HTML</mtext></mfrac></mrow><mi href='//evil.example'>y</math> b</p>"
    )
    document = in_replay("document", [markup])
    text = in_replay("document", [markup, True, "text"])

    assert (
        '<p>a <math class="m" display="block" style="color:red;position:absolute;'
        'background:url(&quot;/c/20260301120000im_/https://evil.example/x&quot;);"><mfrac><mi'
        ' mathvariant="bold">x</mi><mrow>'
        "<mo>&lt;</mo><mtext>in HTML</mtext></mrow></mfrac><mi>y</mi></math> b</p>"
    ) in document
    assert "<p>a x &lt; in HTML y b</p>" in text


@pytest.mark.parametrize(
    "inside",
    ["<mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
     "<annotation-xml encoding=text/html><img src=x>", "<mi//onclick=1>", "<mi\n/onclick='x' x=\"><script>\">",
     "&lt;/math&gt;&lt;script&gt;", "<mo></mi></mrow></mo></mo>", "</mi><mi><mi/><mi / >", "<none><MI>"],
)  # fmt: skip
def test_a_formula_is_read_as_it_is_written(inside: str) -> None:
    """It holds nothing but listed elements, balanced, and text."""
    names = FORMULA_ELEMENTS | {"math"}
    opened: list[str] = []
    for end, name, rest in re.findall(r"<(/?)([^\s>]*)([^>]*)>", write_formula({}, inside)):
        assert name in names
        assert rest == ""
        assert not end or opened.pop() == name
        opened += [] if end else [name]
    assert opened == []


def test_an_image_keeps_the_size_of_the_candidate_that_was_shown(in_replay: Call) -> None:
    """By a candidate of that density; what a page says of candidates is left out."""
    root = "<html data-weboid-written>"
    markup = f"{root}<img data-weboid-src=/a.png data-weboid-density=2.5 srcset='/b.png 9x'>"
    plain = f"{root}<img src=/a.png sizes=10000px srcset='/b.png 2x, //evil.example/c 3x'>"
    address = re.search(r'src="(/c/[^"]+/a.png)"', in_replay("document", [plain]))[1]  # type: ignore[index]

    shown = in_replay("document", [markup])
    assert f'srcset="{address} 25000w" sizes="10000px" src="{address}"' in shown
    assert f'<img src="{address}">' in in_replay("document", [plain])


def test_a_frameset_is_laid_out(in_replay: Call) -> None:
    """Rows and columns become a grid, one within the other; its frames fill it."""
    inner = "<!DOCTYPE html><html data-weboid-url='https://site.example/f'>f</html>"
    frame = f'<frame src="/f" data-weboid-document="{escape(inner)}">'
    document = in_replay(
        "document",
        [f"<html><head></head><frameset rows='10%,*' onload=x>{frame}<frameset cols='200,2*,url(x)'>"
         f"{frame * 3}</frameset></frameset></html>"],
    )  # fmt: skip

    assert document.count("<iframe") == 4
    assert document.count("width:100%;height:100%") == 4
    assert "grid-template-rows:10% minmax(0,1fr);gap:6px;" in document.replace(", ", ",")
    assert document.count("height:100vh") == 1
    assert "grid-template-columns:200px minmax(0,2fr) minmax(0,1fr)" in document.replace(", ", ",")
    assert document.count("gap:6px") == 2
    assert "frameset" not in document
    plain = in_replay("document", [f"<html><frameset cols='9,*' frameborder=no>{frame}</frameset></html>"])
    assert "gap:" not in plain


@pytest.mark.parametrize(("doctype", "is_quirky"), [("", True), ("<!DOCTYPE html>", False)])
def test_a_framed_document_of_quirks_mode_has_its_rules(in_replay: Call, doctype: str, is_quirky: bool) -> None:
    """As style rules, since a document within an attribute is never in that mode; the page itself can be."""
    inner = f"{doctype}<html data-weboid-url='https://site.example/f'><p>f</html>"
    document = in_replay("document", [f'<p>a<iframe src="/f" data-weboid-document="{escape(inner)}"></iframe>'])

    assert ("margin-block-start:0" in document) == is_quirky
    assert "margin-block-start:0" not in in_replay("document", ["<p>a"])


def test_custom_elements_keep_name_and_look(in_replay: Call) -> None:
    """Style sheets select them by name; without scripts they are inert."""
    markup = '<x-card class="c" style="color:red;">a</x-card><my-long-one2>b</my-long-one2>'

    assert in_replay("body", [markup]) == markup
    assert in_replay("body", ["<x-a onclick=1 src=y>t</x-a>"]) == "<x-a>t</x-a>"
    assert "<annotation" not in in_replay("body", ["<annotation-xml>t</annotation-xml>"])


def test_rules_of_a_shadow_tree_find_their_host(in_replay: Call) -> None:
    """The number that our DOM artifact gives a host stays; no other name of ours does."""
    markup = '<p data-weboid-host="3">a</p><p data-weboid-host="x" data-weboid-src="y">b</p>'
    scrolled = '<p data-weboid-beginning="url(//x)">c</p>'

    assert in_replay("body", [markup]) == '<p data-weboid-host="3">a</p><p>b</p>'
    popover = '<p data-weboid-popover="open">d</p><p data-weboid-popover="x">e</p>'
    assert in_replay("body", [popover]) == '<p data-weboid-popover="open">d</p><p>e</p>'
    assert in_replay("body", [scrolled]) == '<p data-weboid-beginning="">c</p>'


def test_a_style_sheet_within_a_data_url_holds(in_replay: Call) -> None:
    """It is filtered as any other."""
    text = in_replay("document", ["<link rel=stylesheet href='data:text/css,p%7Bcolor:red;behavior:url(x)%7D'><p>x"])

    assert "p{color:red;}" in text
    assert "behavior" not in text


_ICON = (
    '<svg class="i" viewBox="0 0 4 4" aria-label="Home" data-weboid-look="width:20px;height:10px;'
    'color:rgb(0, 128, 0);display:block;position:absolute;top:3px"><path d="M0 0h4v4H0z"'
    ' fill="currentColor"></path></svg>'
)


def test_words_of_a_drawing_are_its_alternative_text(in_replay: Call) -> None:
    """Line by line, where it has no label and no title; words of styles and definitions are none."""
    drawing = (
        '<svg viewBox="0 0 4 4" data-weboid-look="width:9px;height:9px"><style>.a{fill:red}</style>'
        "<defs><text>hidden</text></defs><text>One <tspan>two</tspan></text>"
        "<text>three &amp; four<title>three</title></text></svg>"
    )

    assert 'alt="Chart"' in in_replay("document", [drawing.replace("<style>", "<title>Chart</title><style>")])
    assert 'alt="One two\nthree &amp; four"' in in_replay("document", [drawing])


def test_attributes_of_old_pages_are_kept(in_replay: Call) -> None:
    """Colours of links, margins of the body, borders of tables, breaks after floats."""
    text = in_replay(
        "document",
        ["<html data-weboid-written><body link=#900 vlink=red leftmargin=0 onload=x rightmargin=1>"
         "<table bordercolor=blue></table><br clear=all onclick=x><nobr>n</nobr>"],
    )  # fmt: skip

    assert '<body link="#900" vlink="red" leftmargin="0">' in text
    assert '<table bordercolor="blue">' in text
    assert '<br clear="all"><nobr>n</nobr>' in text


def test_attributes_of_rdfa_and_microdata_are_kept_for_styles(in_replay: Call) -> None:
    """MediaWiki 1.43 styles thumbnails by ``typeof``, which has no other effect in a browser."""
    thumbnail = (
        '<figure typeof="mw:File/Thumb" class="mw-halign-left"><figcaption property="name">f</figcaption></figure>'
    )
    text = in_replay(
        "document",
        [f"<style>figure[typeof~='mw:File/Thumb']{{float:right}}</style>{thumbnail}"
         "<div itemscope itemtype='https://schema.org/Thing' onclick=x><b itemprop=name>n</b></div>"],
    )  # fmt: skip

    assert 'figure[typeof~="mw:File/Thumb"]{float:right;}' in text
    assert '<figure typeof="mw:File/Thumb" class="mw-halign-left">' in text
    assert '<figcaption property="name">' in text
    assert '<div itemscope="" itemtype="https://schema.org/Thing"><b itemprop="name">n</b></div>' in text


def test_a_canvas_has_the_size_that_styles_give_it(in_replay: Call) -> None:
    """Rules for canvases hold for its picture, those for images do not."""
    picture = "data:image/png;base64,iVBORw0KGgo="
    text = in_replay(
        "document",
        [f"<style>canvas{{width:200px}}</style><img width=9 data-weboid-canvas='' src='{picture}'>"
         "<img data-weboid-tag=x src=a.png>"],
    )  # fmt: skip

    assert 'img:where([data-weboid-tag="canvas"]){width:200px;}' in text
    assert text.count(' data-weboid-tag="canvas"') == 1
    assert 'data-weboid-tag="x"' not in text


def test_a_drawing_in_a_document_stands_as_an_image(in_replay: Call) -> None:
    """Of its size, at its place, with what it says as the alternative text; nothing of it is markup."""
    text = in_replay("document", [f"<p>a {_ICON} b</p>"])

    assert "<svg" not in text
    image = re.search(r"<img[^>]*>", text)
    assert image is not None
    assert 'class="i"' in image[0]
    assert 'alt="Home"' in image[0]
    assert 'style="width:20px;height:10px;display:block;position:absolute;top:3px;"' in image[0]
    assert 'src="data:image/png;base64,' in image[0]
    assert "data-weboid-look" not in image[0]
    assert "<p>a Home b</p>" in in_replay("document", [f"<p>a {_ICON} b</p>", True, "html"])


def test_a_drawing_borrows_shapes_from_others_in_its_document(in_replay: Call) -> None:
    """As sprites do: one hidden drawing holds the icons that the others show."""
    sprite = (
        '<svg data-weboid-look="display:none"><symbol id="s" viewBox="0 0 4 4">'
        '<path d="M0 0h4v4H0z"></path></symbol></svg>'
    )
    icon = '<svg viewBox="0 0 4 4" width="8" height="8"><use xlink:href="#{}"></use></svg>'
    with_shape = in_replay("document", [sprite + icon.format("s")])
    without = in_replay("document", [sprite + icon.format("none")])

    assert with_shape.count("<img") == without.count("<img") == 1
    assert with_shape != without.replace("none", "s")


@pytest.mark.parametrize(
    "shape",
    [
        '<rect data-weboid-look="width:4;height:4;fill:rgb(0,128,0)" fill="red"></rect>',
        '<style>rect{fill:red!important}</style><rect data-weboid-look="fill:rgb(0,128,0)" style="width:1px;'
        'fill:blue" width="4" height="4"></rect>',
        '<g data-weboid-look="color:rgb(0,128,0)"><path d="M0 0" data-weboid-look="d:M 0 0 H 4 V 4 H 0 Z;'
        'fill:currentColor"></path></g>',
        '<rect width="4" height="4" fill="green"></rect><rect width="4" height="4" data-weboid-look="display:none"></rect>',
        '<rect width="1" height="1" fill="green" transform="translate(9 9)" style="transform-origin:9px 9px"'
        ' data-weboid-look="transform:matrix(4 0 0 4 0 0)"></rect>',
        '<rect width="4" height="4" data-weboid-look="fill:url(#g)"></rect></svg><svg data-weboid-look="display:none">'
        '<linearGradient id="h"><stop data-weboid-look="stop-color:rgb(0,128,0)"></stop></linearGradient>'
        '<linearGradient id="g" href="#h"></linearGradient>',
    ],
    ids=["attributes", "sheets-within", "path", "hidden", "transform", "gradient"],
)
def test_a_shape_is_drawn_as_it_looked(in_replay: Call, shape: str) -> None:
    """The recorded computed style of a shape overrides its own attributes and style."""
    text = in_replay("document", [f'<svg width="4" height="4">{shape}</svg>'])

    image = re.search(r'src="data:image/png;base64,([^"]+)"', text)
    assert image is not None
    with Image.open(io.BytesIO(b64decode(image[1]))) as picture:
        assert picture.convert("RGBA").getcolors() == [(64, (0, 128, 0, 255))]


@pytest.mark.parametrize(
    "svg",
    [
        "<svg><script>alert(1)</script><image href='/etc/passwd'></svg>",
        "<svg viewBox='0 0 1 1'><p>out</p></svg>",
        "<svg" + " x=1" * 5_000 + ">",
        "<svg>" * 20_000,
        '<svg viewBox="0 0 1 1"><path d="' + "var(--a," * 30_000 + '"></path></svg>',
        '<svg viewBox="0 0 1 1"><use href="#a"></use></svg>' * 500 + "<svg>" * 5_000,
        '<svg width="1" height="1"></svg>' * 3_000,
        '<svg width="2500" height="2500"></svg>' * 9,
        '<svg data-weboid-look="width:9px;height:9px;color:red;x:url(//evil.example/x);fill:url(//evil.example/y)"'
        ' width="9" height="9"></svg>',
        '<svg width="9" height="9"><rect style="a:b;fill:url(//evil.example/1)" data-weboid-look="fill:url(//evil.example/2);'
        'href:file///etc/passwd;onload:alert(1);transform:matrix(9e9 0 0);font-family:x}</style><script>;d:M0 0"></rect></svg>',
        '<svg width="9" height="9">' + '<g data-weboid-look="mask:url(#a);fill:url(#a)" id="a">' * 150,
    ],
    ids=range(11),
)
def test_a_hostile_drawing_brings_nothing_but_a_picture(in_replay: Call, svg: str) -> None:
    """Whatever is in it, however often, however large (P-02, P-21)."""
    text = in_replay("document", [svg])

    assert faults_of(text, _WHOLE) == []
    assert text.count("<img") <= 400

"""docs/pictures/link-states.svg: the states of a link and their transitions, from the tables that decide.

Transitions that every state in the frame shares are drawn once, at the frame. The places of the states are
fixed here; a transition without a place of its own is an error, so that the picture cannot lack one.
"""

from collections import defaultdict

from links.states import LinkState
from scripts.link_states import edges

ORDINARY = (LinkState.UNKNOWN, LinkState.ALIVE, LinkState.BLOCKED, LinkState.DYING, LinkState.DEAD)
_CHANGED = (LinkState.USURPED, LinkState.DEVIATED)
_PLACES = {
    LinkState.UNKNOWN: (120, 200),
    LinkState.ALIVE: (340, 100),
    LinkState.BLOCKED: (340, 300),
    LinkState.DYING: (520, 200),
    LinkState.DEAD: (690, 200),
    LinkState.INVALID: (120, 450),
    LinkState.USURPED: (990, 172),
    LinkState.DEVIATED: (990, 228),
    LinkState.PERMALIVE: (420, 450),
    LinkState.PERMADEAD: (580, 450),
    LinkState.EXCLUDED: (740, 450),
}
# Curves of single transitions, with the place and anchor of their labels.
_CURVES = {
    (LinkState.UNKNOWN, LinkState.DYING): ("M180 200H460", (230, 192, "start")),
    (LinkState.UNKNOWN, LinkState.INVALID): ("M120 222V428", (128, 404, "start")),
    (LinkState.ALIVE, LinkState.DYING): ("M400 108 C470 115 510 140 518 178", (488, 112, "start")),
    (LinkState.BLOCKED, LinkState.DYING): ("M400 292 C470 285 510 260 518 222", (512, 272, "start")),
    (LinkState.DYING, LinkState.DEAD): ("M580 200H630", (605, 138, "middle")),
    (LinkState.USURPED, LinkState.ALIVE): ("M990 150 C990 30 620 20 400 88", (850, 26, "start")),
    (LinkState.USURPED, LinkState.DYING): ("M990 250 C990 410 640 400 540 222", (800, 386, "start")),
}
_SHARED = {
    LinkState.ALIVE: ("M340 44V78", (350, 64, "start")),
    LinkState.BLOCKED: ("M340 356V322", (350, 348, "start")),
    LinkState.USURPED: ("M770 200H926", (848, 172, "middle")),
}
_STYLE = """\
.a{stroke:#1c2430;stroke-width:1.4;fill:none;marker-end:url(#m)}.all{stroke:#0b62c4;stroke-width:2.4}
.t{fill:#1c2430;text-anchor:middle;font-weight:600}.s{fill:#3c4657;font-size:12.5px}.f{fill:#0b62c4;font-size:12.5px}
.box{fill:#fff;stroke:#1c2430}.frame{fill:#eaf2fc;stroke:#0b62c4;stroke-dasharray:5 4}"""


def picture() -> str:
    """Return the picture as SVG. Raises KeyError for a transition that has no place."""
    words: dict[tuple[LinkState, LinkState], list[str]] = defaultdict(list)
    for source, target, text in edges():
        words[source, target].append(text)
    shared = _shared(words)
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1070 490" font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="t d">',
        '<title id="t">States of a link and their transitions</title>',
        f'<desc id="d">{_description(words)}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        '<defs><marker id="m" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="context-stroke"/></marker></defs>',
        '<rect width="1070" height="490" fill="#fff"/>',
        '<rect class="frame" x="30" y="44" width="740" height="312" rx="10"/>',
        '<text class="f" x="44" y="66">From every state in this frame (blue arrows):</text>',
    ]
    for target, texts in shared.items():
        curve, label = _SHARED[target]
        lines += [f'<path class="a all" d="{curve}"/>', *_label(texts, label, "f")]
    done = set()
    for (source, target), texts in words.items():
        pair = _joined(source), _joined(target)
        if pair in done or pair[0] is pair[1] or (pair[1] in shared and source in ORDINARY):
            continue
        done.add(pair)
        curve, label = _CURVES[pair]
        lines += [f'<path class="a" d="{curve}"/>', *_label(texts, label, "s")]
    for state, (x, y) in _PLACES.items():
        lines.append(f'<rect class="box" x="{x - 60}" y="{y - 22}" width="120" height="44" rx="6"/>')
        lines.append(f'<text class="t" x="{x}" y="{y + 5}">{state.name}</text>')
    lines.append('<text class="s" x="320" y="420">Set by people and policy, whatever checks say:</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _joined(state: LinkState) -> LinkState:
    return _CHANGED[0] if state in _CHANGED else state


def _shared(words: dict[tuple[LinkState, LinkState], list[str]]) -> dict[LinkState, list[str]]:
    """Return the transitions that all other states of the frame have in common, by target."""
    texts_by_target: dict[LinkState, list[str]] = {}
    for target in _SHARED:
        texts = [words[source, target] for source in ORDINARY if source is not target]
        if any(each != texts[0] for each in texts):
            raise KeyError(target)
        texts_by_target[target] = list(texts[0])
        if target is _CHANGED[0]:
            texts_by_target[target] += words[ORDINARY[0], _CHANGED[1]]
    return texts_by_target


def _label(texts: list[str], place: tuple[int, int, str], kind: str) -> list[str]:
    """Return the words of an arrow; what the browser alone decides says so in a second line."""
    x, y, anchor = place
    by_browser = any(text.endswith(" by the browser") for text in texts)
    plain = [text.removesuffix(" by the browser") for text in texts]
    verdicts, _, condition = " or ".join(plain).partition(", ")
    lines = (
        [verdicts]
        if not condition
        else [
            f"{' or '.join(each.partition(',')[0] for each in plain)},",
            *condition.partition(" or ")[0].split(" and "),
        ]
    )
    if len(lines) == 3:
        lines[2] = f"and {lines[2]}"
    lines += ["by the browser"] if by_browser else []
    return [
        f'<text class="{kind}" x="{x}" y="{y + 16 * number}" text-anchor="{anchor}">{text}</text>'
        for number, text in enumerate(lines)
    ]


def _description(words: dict[tuple[LinkState, LinkState], list[str]]) -> str:
    return " ".join(
        f"{source.name} to {target.name}: {' or '.join(texts)}."
        for (source, target), texts in words.items()
        if _joined(source) is not _joined(target)
    )

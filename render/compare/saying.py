"""What a comparison found, in a sentence for people."""

from render.compare.pictures import PictureComparison

_MUCH = 0.3
_SOME = 0.005


def sentence(found: PictureComparison) -> str:
    """What differs, the worst first."""
    if found.seen_blank and found.score > 1 - _SOME:
        return "Both pictures are blank."
    if found.seen_blank:
        return "The first picture is blank, and the second is another one."
    if found.blank:
        return "The second picture is blank: next to nothing of the page is drawn."
    parts = [text for weight, text in sorted(_parts(found), key=lambda each: -each[0]) if text]
    if not parts:
        return "Nothing differs." if found.score == 1 else "Hardly anything differs."
    return f"{'; '.join(parts)}."[:1].upper() + f"{'; '.join(parts)}."[1:]


def _parts(found: PictureComparison) -> list[tuple[float, str]]:
    """Each difference that is worth a word, with its weight."""
    parts = []
    if found.covered > _SOME:
        parts.append((2.0, f"something lies over {found.covered:.0%} of what was drawn"))
    if found.lost > _SOME:
        parts.append((found.lost, f"{_share(found.lost)} of what was drawn is missing"))
    if found.changed > _SOME:
        other = "something else is drawn in place of" if found.changed > _MUCH else "changed is"
        parts.append((found.changed, f"{other} {_share(found.changed)} of what was drawn"))
    if found.added > _SOME:
        parts.append((found.added / 2, f"{_share(found.added)} of what is shown was added"))
    if found.moved > _SOME:
        parts.append((found.moved / 100, f"{_share(found.moved)} of the rows stand elsewhere"))
    return parts


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.01 else f"{value:.1%}"

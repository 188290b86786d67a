"""Acid cells about how pages are written today: what scripts leave in boxes, on top, and in drawings."""

from tests.sites.acid_cell import Cell, at, cell

_ROWS = "".join(
    f"<p style='margin:0;height:50px;background:{'#008000' if 2 <= n < 6 else 'red'}'>{n}</p>"
    for n in range(8)
)
_END = "<p style='margin:0;height:60px;background:red'></p>" * 5 + (
    "<p style='margin:0;height:60px;background:#008000'></p>" * 2
)
_SLIDES = "<div style='display:flex;width:300px'>" + "".join(
    f"<div style='width:100px;height:100px;background:{colour}'></div>"
    for colour in ("red", "#008000", "red")
)

WRITING: tuple[Cell, ...] = (
    cell(
        "scrolled",
        f"<div id=m0 {at(0, 'overflow:auto;scrollbar-width:none;')}>{_ROWS}</div>"
        f"<div id=m1 {at(1, 'overflow-y:scroll;scrollbar-width:none;')}><div>{_END}</div></div>"
        f"<div id=m2 {at(2)}>{_SLIDES}</div></div>"
        f"<div id=m3 dir=rtl {at(3)}>{_SLIDES}</div></div>",
        script=(
            "mark(0).scrollTop = 100; mark(1).scrollTop = 9999;"
            "mark(2).scrollLeft = 100; mark(3).scrollLeft = -100;"
        ),
        count=4,
    ),
)

"""Acid cells about how pages are written today: what scripts leave in boxes, on top, and in drawings."""

from tests.support.sites.acid_cell import AcidCell, at, cell

_ROWS = "".join(
    f"<p style='margin:0;height:50px;background:{'#008000' if 2 <= n < 6 else 'red'}'>{n}</p>" for n in range(8)
)
_END = "<p style='margin:0;height:60px;background:red'></p>" * 5 + (
    "<p style='margin:0;height:60px;background:#008000'></p>" * 2
)
_SLIDES = "<div style='display:flex;width:300px'>" + "".join(
    f"<div style='width:100px;height:100px;background:{colour}'></div>" for colour in ("red", "#008000", "red")
)

_STATES = """<style>
#m0:popover-open,#m1:modal,[popover]#m2{background:#008000}
i{display:block;width:100px;height:100px;background:#ddd}
.mark :is(input,textarea,select){position:absolute;opacity:0}
input:checked+i,textarea:not(:placeholder-shown)+i,select:has([value=b]:checked)+i,
details[open] i{background:#008000}
</style>"""

WRITING: tuple[AcidCell, ...] = (
    cell(
        "states",
        f"<div id=m0 popover=manual {at(0)}></div><dialog id=m1 {at(1)}></dialog>"
        f"<div id=m2 popover=manual {at(2)}></div>"
        f"<div {at(3)}><input type=checkbox id=c3><i></i></div>"
        f"<div {at(4)}><textarea id=c4 placeholder=x></textarea><i></i></div>"
        f"<div {at(5)}><select id=c5><option value=a>a<option value=b>b</select><i></i></div>"
        f"<details id=c6 {at(6)}><summary style='display:none'>s</summary><i></i></details>",
        head=_STATES,
        script=(
            "const get = (id) => document.getElementById(id); get('c3').checked = true;"
            "get('c4').value = 'typed'; get('c5').value = 'b'; get('c6').open = true;"
            "mark(0).showPopover(); mark(1).showModal(); mark(2).showPopover();"
        ),
        count=7,
    ),
    cell(
        "scrolled",
        f"<div id=m0 {at(0, 'overflow:auto;scrollbar-width:none;')}>{_ROWS}</div>"
        f"<div id=m1 {at(1, 'overflow-y:scroll;scrollbar-width:none;')}><div>{_END}</div></div>"
        f"<div id=m2 {at(2)}>{_SLIDES}</div></div>"
        f"<div id=m3 dir=rtl {at(3)}>{_SLIDES}</div></div>",
        script=(
            "mark(0).scrollTop = 100; mark(1).scrollTop = 9999;mark(2).scrollLeft = 100; mark(3).scrollLeft = -100;"
        ),
        count=4,
    ),
)

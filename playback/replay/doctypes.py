"""By which rules of layout a document was laid out: what its document type says of that, and how to keep it.

HTML has three modes, and the document type chooses (HTML Standard, 13.2.6.4.1): quirks, limited quirks,
in which cells and lines close up around pictures, and none. What a copy says is one of three constants;
nothing of the original's own words is in it.
"""

import re

_DOCTYPE = re.compile(
    r"""\ufeff?\s*(?:<\?xml[^>]{0,200}>\s*)?(?><!--.*?-->\s*)*+<!doctype\s+html
    (?:\s+(?:public\s*(?:"([^">]*)"|'([^'>]*)')|system)
    \s*("[^">]*"|'[^'>]*')?)?[^>]{0,200}>""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_NO_QUIRKS = "<!DOCTYPE html>"
_LIMITED_QUIRKS = (
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"'
    ' "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">'
)
_QUIRKS = ""
_OLD = ("-//w3o//dtd w3 html strict 3.0//en//", "-/w3c/dtd html 4.0 transitional/en", "html")
_OLD_SYSTEM = "http://www.ibm.com/data/dtd/v11/ibmxhtml1-transitional.dtd"
_OLD_BEGINNINGS = (
    "+//silmaril//dtd html pro v0r11 19970101//",
    "-//as//dtd html 3.0 aswedit + extensions//",
    "-//advasoft ltd//dtd html 3.0 aswedit + extensions//",
    "-//ietf//dtd html",  # of all versions; the few that the standard does not name were never in use
    "-//metrius//dtd metrius presentational//",
    "-//microsoft//dtd internet explorer 2.0 ",
    "-//microsoft//dtd internet explorer 3.0 ",
    "-//netscape comm. corp.//dtd html//",
    "-//netscape comm. corp.//dtd strict html//",
    "-//o'reilly and associates//dtd html 2.0//",
    "-//o'reilly and associates//dtd html extended 1.0//",
    "-//o'reilly and associates//dtd html extended relaxed 1.0//",
    "-//sq//dtd html 2.0 hotmetal + extensions//",
    "-//softquad software//dtd hotmetal pro 6.0::19990601::extensions to html 4.0//",
    "-//softquad//dtd hotmetal pro 4.0::19971010::extensions to html 4.0//",
    "-//spyglass//dtd html 2.0 extended//",
    "-//sun microsystems corp.//dtd hotjava html//",
    "-//sun microsystems corp.//dtd hotjava strict html//",
    "-//w3c//dtd html 3 1995-03-24//",
    "-//w3c//dtd html 3.2 draft//",
    "-//w3c//dtd html 3.2 final//",
    "-//w3c//dtd html 3.2//",
    "-//w3c//dtd html 3.2s draft//",
    "-//w3c//dtd html 4.0 frameset//",
    "-//w3c//dtd html 4.0 transitional//",
    "-//w3c//dtd html experimental 19960712//",
    "-//w3c//dtd html experimental 970421//",
    "-//w3c//dtd w3 html//",
    "-//w3o//dtd w3 html 3.0//",
    "-//webtechs//dtd mozilla html",
)
_BY_SYSTEM = ("-//w3c//dtd html 4.01 frameset//", "-//w3c//dtd html 4.01 transitional//")
_LIMITED = ("-//w3c//dtd xhtml 1.0 frameset//", "-//w3c//dtd xhtml 1.0 transitional//")


def doctype_of(text: str) -> str:
    """The document type, ours, under which a document is laid out as under its own; empty in quirks mode."""
    found = _DOCTYPE.match(text)
    if found is None:
        return _QUIRKS
    public = (found[1] or found[2] or "").lower()
    system = (found[3] or "")[1:-1].lower()
    if public in _OLD or public.startswith(_OLD_BEGINNINGS) or system == _OLD_SYSTEM:
        return _QUIRKS
    if public.startswith(_BY_SYSTEM):
        return _LIMITED_QUIRKS if found[3] else _QUIRKS
    return _LIMITED_QUIRKS if public.startswith(_LIMITED) else _NO_QUIRKS

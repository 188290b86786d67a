"""HTML rewriter derived from pywb; imported in makers of the pywb environment only."""

from typing import Any

from pywb.rewrite.cookie_rewriter import RemoveAllCookiesRewriter
from pywb.rewrite.default_rewriter import DefaultRewriter
from pywb.rewrite.html_rewriter import HTMLRewriter
from pywb.rewrite.url_rewriter import UrlRewriter

from playback.replay.full import text_rewriter

# Hints that open connections, which no content policy forbids.
_HINTS = {"preconnect", "dns-prefetch", "prerender"}
# A page's own policies and redirects: pywb reads some spellings of them, browsers read more.
_META = {
    "content-security-policy",
    "content-security-policy-report-only",
    "x-dns-prefetch-control",
    "set-cookie",
    "origin-trial",
    "accept-ch",
    "delegate-ch",
}
# Relative addresses of frames need the frame modifier, too: otherwise they have the page's.
_FRAMES = {"iframe": ("src", "if_"), "frame": ("src", "fr_"), "object": ("data", "oe_"), "embed": ("src", "oe_")}
_DROPPED = {"ping", "nonce", "referrerpolicy", "attributionsrc", "csp", "manifest"}


class PywbUrlRewriter(UrlRewriter):  # type: ignore[misc]
    """URL rewriter that gives the page's scheme to addresses without one."""

    def rewrite(self, url: str, mod: str | None = None, force_abs: bool = False) -> str:  # noqa: FBT001, FBT002 pywb's
        """Return the address in the archive."""
        if url.startswith("//"):
            url = f"{self.wburl.url.partition(':')[0]}:{url}"
        rewritten: str = super().rewrite(url, mod, force_abs)
        return rewritten

    def _create_rebased_rewriter(self, new_wburl: Any, prefix: str) -> "PywbUrlRewriter":
        return PywbUrlRewriter(new_wburl, prefix)


class PywbPageRewriter(HTMLRewriter):  # type: ignore[misc]
    """HTML rewriter with support for modules, which removes hints that open connections."""

    _script = ""
    _wb_parse_context: str | None

    def _rewrite_tag_attrs(self, tag: str, tag_attrs: list[tuple[str, str | None]], *more: Any) -> bool:
        values = {name: value or "" for name, value in tag_attrs}
        relations = set(values.get("rel", "").lower().split()) if tag == "link" else set()
        dropped = set(_DROPPED)
        if relations & _HINTS:
            dropped |= {"href", "rel"}
        if tag == "meta" and values.get("http-equiv", "").lower() in _META:
            dropped.add("content")
        attributes = [each for each in tag_attrs if each[0] not in dropped]
        name, modifier = _FRAMES.get(tag, ("", ""))
        if values.get(name):
            attributes = [each for each in attributes if each[0] != name]
            # pywb does not rewrite an attribute in this spelling.
            attributes.append((name.upper(), self._rewrite_url(values[name], modifier, True)))  # noqa: FBT003 pywb's
        if "modulepreload" in relations and "href" in values:
            attributes = [each for each in attributes if each[0] != "href"]
            attributes.append(("HREF", self._rewrite_url(values["href"], "js_", True)))  # noqa: FBT003 pywb's
        if (tag == "script" and "src" in values) or "stylesheet" in relations:
            # Without it a script's errors and a sheet's rules are hidden from the page: for its opaque
            # origin even its own resources are cross-origin.
            attributes.append(("crossOrigin", "anonymous"))
        done: bool = super()._rewrite_tag_attrs(tag, attributes, *more)
        return done

    def _write_attr(self, name: str, value: str, empty_attr: Any) -> None:
        if name != "target" or value != "___wb_replay_top_frame":
            super()._write_attr(name, value, empty_attr)

    def _set_parse_context(self, tag: str, tag_attrs: Any) -> None:
        if tag == "script" and not self._wb_parse_context:
            self._script = (self.get_attr(tag_attrs, "type") or "").lower().strip()
            if self._script in {"module", "importmap"}:
                self._wb_parse_context = "script"
                return
        super()._set_parse_context(tag, tag_attrs)

    def _rewrite_script(self, script_content: str, inline_attr: bool = False) -> str:  # noqa: FBT001, FBT002 pywb's
        if not inline_attr and self._wb_parse_context == "script":
            urls = text_rewriter.script_addresses(self.url_rewriter)
            if self._script == "importmap":
                return text_rewriter.rewrite_import_map(script_content, urls)
            if self._script == "module":
                return text_rewriter.rewrite_module(script_content, urls, text_rewriter.MODULE_PATH)
            script_content = text_rewriter.share_declarations(script_content)
        code: str = super()._rewrite_script(text_rewriter.rewrite_dynamic_imports(script_content, "null"), inline_attr)
        return code


class PywbRewriter(DefaultRewriter):  # type: ignore[misc]
    """pywb's rewriter, reduced to the parts that replay uses."""

    DEFAULT_REWRITERS = {  # noqa: RUF012 pywb's
        **DefaultRewriter.DEFAULT_REWRITERS,
        "html": PywbPageRewriter,
        "cookie": RemoveAllCookiesRewriter,
        "header": lambda _rewriting: lambda: None,
    }

"""Soft 404s: wording, near-empty pages, and the answer to an invented sibling URL.

A title or heading must equal the phrase, not contain it, and two findings are required: pages about
missing pages, and lists without entries, are pages.

Two known pitfalls (links.md 2.3, 5.11): a site that redirects unknown URLs to its root page makes that
page look like an error page; so a page counts as one only when the *cited* URL was redirected there too,
or when both are answered without redirects and with the same words. And a site that answers without
redirects is missed by comparing redirects alone; so words are compared as well.
"""

import random
import re
import string
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import re2

from classify.evidence import ClassFindings, PageEvidence, normalize_text
from classify.page_excerpt import hamming_distance
from classify.redirect_target import is_root

# ruff: noqa: RUF001 words of many writings


# Titles of such pages, by language.
_NAMES = (
    r"(?:error:? )?(?:(?:the |this |that )?(?:requested )?(?:web ?)?(?:page|site|article|file|document"
    r"|content|resource|url|story|item|product|listing|post|video|topic|thread|profile|user|entry"
    r"|record|job|posting|listing|offer|event|recipe|link)s?"
    r"(?: (?:that )?you(?:'re| are| were|'ve| have)?(?: requested| looking for| looked for| want(?:ed)?"
    r"| (?:trying|tried|attempting) to (?:reach|view|access|find|visit)))?"
    r" (?:(?:was |were |is |could |can ?|can't |cannot |has )?(?:not |be |been ){0,3}"
    r"(?:found|available|exists?)|can't be found|couldn't be found|wasn't found|(?:could not|couldn't|cannot) be located|(?:does not|doesn't) (?:seem|appear) to exist"
    r"|(?:is not|isn't|wasn't) (?:found|available|here)|(?:does not|doesn't|no longer) exists?|(?:is )?(?:unavailable|missing|gone)"
    r"|(?:is |are )?no longer available|(?:has been|was) (?:removed|deleted|moved))"
    r"(?: right now| any ?more| any longer| at this time| at the moment| here| on this server)?)",
    r"not found|nothing (?:was )?found(?: here)?|nothing here|no such page",
    r"(?:we |you )?(?:can't|couldn't|cannot|could not) (?:seem to )?find (?:that|this|the|your)"
    r"(?: \w+)? ?page(?: you(?:'re| are) looking for)?",
    r"(?:die |diese )?(?:angeforderte |gewünschte |gesuchte )?(?:seite|datei|inhalt)"
    r" (?:wurde |konnte |ist |existiert |leider ){0,3}"
    r"(?:nicht (?:gefunden|verfügbar|vorhanden)(?: werden)?|nicht mehr(?: verfügbar)?)"
    r"|nicht gefunden|(?:die |diese )?seite existiert nicht",
    r"(?:la |cette )?(?:page|ressource|article) (?:demandée? |que vous (?:re)?cherchez )?"
    r"(?:est |n'est |n'a |n'existe ){0,2}(?:pas |plus )?(?:été )?"
    r"(?:introuvable|non trouvée?|trouvée?|inexistante?|disponible|pas|plus)",
    r"(?:la )?página (?:solicitada |que buscas )?(?:no (?:se ha |ha sido |fue |se )?"
    r"(?:encontrad[ao]|encuentra|existe|disponible)|inexistente)|no encontrad[ao]"
    r"|no se (?:ha )?(?:encontró|encontrado|pudo encontrar) la página",
    r"(?:la )?pagina (?:richiesta )?non (?:è stata |è )?(?:trovata|disponibile|esiste)|non trovat[ao]",
    r"(?:a )?página (?:solicitada )?não (?:foi )?(?:encontrada|existe)|não encontrad[ao]",
    r"(?:de |deze )?(?:gevraagde )?pagina (?:is |werd |kon )?(?:niet (?:gevonden|beschikbaar)"
    r"|bestaat niet(?: meer)?)|niet gevonden",
    r"(?:ta |żądana )?strona (?:nie została znaleziona|nie istnieje|nie znaleziona"
    r"|o podanym adresie nie istnieje)|nie znaleziono(?: strony)?|nie ma takiej strony",
    r"(?:запрашиваемая |запрошенная |такая )?страница (?:не найдена|не существует|удалена)"
    r"|страницы не существует|не найдено|сторінку не знайдено",
    r"sidan (?:hittades inte|kunde inte hittas|finns inte)"
    r"|siden (?:blev ikke fundet|ble ikke funnet|findes ikke|finnes ikke)|sivua ei löy(?:dy|tynyt)",
    r"stránka (?:nenalezena|nebyla nalezena|neexistuje)|az oldal nem található"
    r"|pagina nu (?:a fost găsită|există)|(?:aradığınız )?sayfa bulunamadı",
    r"(?:お探しの|指定された|ご指定の)?ページ(?:が|は)?(?:見つかりません(?:でした)?|存在しません|ございません)",
    r"(?:抱歉,?|对不起,?)?(?:您访问的|您要找的|你访问的)?(?:页面|网页|網頁|頁面)"
    r"(?:不存在|未找到|找不到|没有找到|已(?:被)?删除)|找不到(?:页面|网页|網頁|頁面)",
    r"페이지를 찾을 수 없습니다|الصفحة غير موجودة|הדף לא נמצא|ไม่พบหน้า(?:ที่คุณต้องการ)?"
    r"|không tìm thấy trang|halaman tidak ditemukan",
)
_NAME = "|".join(_NAMES)
# The phrase as a whole title or heading, or as a part separated from the site's name.
_ERROR_TITLES = re2.compile(
    r"(?:(?:error|http error|fehler|erreur|errore|fout|błąd|erro|ошибка|エラー) ?){0,2}404"
    rf"(?:[ ,:-]{{0,3}}(?:error|fehler|http|page))?[ ,:-]{{0,3}}(?:{_NAME})?"
    rf"|http 404[ ,:-]{{1,3}}(?:{_NAME})"
    rf"|(?:(?:we(?:'re| are) (?:very |so )?sorry|sorry|o+ps|oups|ups|hoppla|oh no|uh[- ]oh|whoops|hmm+|error)[ ,.!:]{{0,4}}(?:but )?){{0,2}}(?:{_NAME})[ (]{{0,2}}(?:404\)?)?"
)
# The apology that stands below it.
_APOLOGIES = re2.compile(
    r"(?:page|url|address|document|file|article|content|story|resource|link)[^.!?]{0,60}"
    r"(?:(?:could not|couldn't|cannot|can't|can not) be (?:found|located|displayed)|(?:was|were|is|are) not found"
    r"|wasn't found|does(?: not|n't) exist|no longer (?:exists?|available|here)|(?:has|have|been|was)[^.!?]{0,30}"
    r"(?:removed|deleted|moved)|(?:is|are) (?:not|no longer) available|never existed|is gone)"
    r"|(?:can't|couldn't|cannot|could not|unable to|were unable to) (?:seem to )?(?:find|locate) (?:the|that|this|a|what|any)\b"
    r"|nothing (?:was |could be )?found (?:at|for|in) th(?:is|at)|you (?:may|might) have (?:mis-?typed|followed|clicked)|has expired or|(?:mis-?typed|wrong|broken|outdated|dead) (?:the )?(?:url|address|link)|page you(?: a|')re looking for"
    r"|was not found on this server|seite[^.!?]{0,60}(?:nicht (?:gefunden|vorhanden|mehr|verfügbar)|existiert nicht|gelöscht|verschoben)"
    r"|page[^.!?]{0,60}(?:introuvable|n'existe (?:pas|plus)|n'a pas (?:pu )?(?:été|être) trouvée|a été (?:supprimée|déplacée)|plus disponible)"
    r"|página[^.!?]{0,60}(?:no (?:existe|se (?:ha )?(?:encontr|pudo)|está disponible|fue encontrada)|não (?:existe|foi encontrada|está disponível)|ha sido eliminada|foi removida)"
    r"|pagina[^.!?]{0,60}(?:non (?:esiste|è (?:stata trovata|disponibile|più))|niet (?:gevonden|beschikbaar|meer)|bestaat niet|rimossa|verwijderd|nu (?:există|a fost))"
    r"|stron[aęy][^.!?]{0,60}(?:nie (?:istnieje|została|znaleziono|można)|usunięt|przeniesion)"
    r"|страниц[аыу][^.!?]{0,60}(?:не (?:найдена|существует|найти)|удален|перемещен)"
    r"|ページ[^。]{0,40}(?:見つかり|見つけ|存在し|削除|移動|ありませ|ございませ)|(?:页面|網頁|頁面|网页)[^。]{0,30}(?:不存在|找不到|删除|刪除|未找到)"
    r"|페이지[^.]{0,30}(?:찾을 수 없|삭제|존재하지)"
)
_ERROR_PATHS = re2.compile(
    r"/(?:error[-_/]?)?404(?:[-_.]?(?:error|notfound))?(?:\.\w{2,5})?/?$"
    r"|/(?:page[-_]?)?not[-_]?found(?:\.\w{2,5})?/?$|/error(?:s|page)?(?:/\w+)?(?:\.\w{2,5})?/?$"
    r"|/(?:seite-)?nicht-gefunden|/introuvable|/pagina-no-encontrada|/page-introuvable"
)
_ERROR_QUERIES = re2.compile(
    r"(?:^|&)(?:(?:e|error|err|status|code|msg)=)?(?:404|not[-_]?found)(?:&|=|$)"
)
_WORD_ENDS = re2.compile(r"[^\pL\pN]+")
_HOMES = re2.compile(
    r"(?:index|home|default|main|welcome|start|accueil|inicio|startseite)(?:\.\w{2,5})?"
)
_SPECIFIC = re2.compile(r"\d{3}|[-_][^-_/]+[-_]|\.(?:html?|php|aspx?|pdf|jsp|cfm)$")
# Placeholder texts of pages whose script has not run.
_WAITING = re2.compile(
    r"(?:loading|please wait|laden|chargement|cargando|caricamento|wird geladen|загрузка|読み込み中|加载中)"
    r"[ .…]*(?:please wait[ .…]*)?"
    r"|(?:please |you need to |we're sorry but .{0,60})?enable javascript.{0,80}|.{0,60}requires? javascript.{0,60}"
    r"|javascript (?:is|must be) (?:disabled|required|enabled).{0,80}"
)
_EMPTY_CHARS = 6


def judge_soft_404(page: PageEvidence) -> ClassFindings:
    """Collect findings for a missing page with a success status."""
    case = ClassFindings()
    if page.has_moved:
        _judge_redirect(page, case)
    if page.prose >= 1_200 or page.volume >= 12_000:
        return case  # words are about something here
    title = next((part for part in page.title_parts if _ERROR_TITLES.fullmatch(part)), "")
    if title:
        case.add(0.4 if title.isdigit() else 0.6, f"Its title is “{title}”.")
    heading = next((part for part in page.heading_parts if _ERROR_TITLES.fullmatch(part)), "")
    if heading:
        case.add(0.4 if heading.isdigit() else 0.5, f"Its heading is “{heading}”.")
    apology = _APOLOGIES.search(page.words) if page.prose < 900 else None
    if apology and (title or heading or case.score):
        case.add(0.52, f"It says “{apology[0][:100]}”.")
    elif apology and page.volume < 250 and page.seen.links < 8:
        case.add(0.6, f"It says little more than “{apology[0][:100]}”.")
    elif not heading and _ERROR_TITLES.fullmatch(page.words.strip(" .!")):
        case.add(0.75, f"It says nothing but “{page.words[:100]}”.")
    robots = f"{page.seen.robots} {page.headers.get('x-robots-tag', '')}".lower()
    if "noindex" in robots and (title or heading or apology):
        case.add(0.25, "It asks not to be indexed.")
    return case


def _judge_redirect(page: PageEvidence, case: ClassFindings) -> None:
    if _ERROR_PATHS.search(page.final.path):
        case.add(0.6, f"Redirects led to {page.final.path[:100]}, an address of errors.")
        return
    segments = [each for each in page.wanted.path.split("/") if each]
    if _ERROR_QUERIES.search(page.final.query):
        case.add(0.7, "Redirects led to an address that says that it is an error's.")
        return
    to_root = page.final.path in ("", "/") and not page.final.query
    if not to_root or not segments or _HOMES.fullmatch(segments[-1]):
        return
    # A page whose title matches the URL's last segment has only moved.
    words = [each for each in _WORD_ENDS.split(segments[-1]) if len(each) > 3]
    words = [each for each in words if not each.isdigit()]
    headings = (normalize_text(each) for each in page.seen.headings[:3])
    called = " ".join((*page.title_parts[:1], *headings))
    matches = sum(each in called for each in words)
    if matches and matches >= min(2, len(words)):
        return
    specific = len(segments) > 1 and _SPECIFIC.search(segments[-1])
    if specific:
        case.add(0.72, "Redirects led from a page deep in a site to a home page.")
    elif len(segments) > 1:
        case.add(0.55, "Redirects led to a home page.")


def judge_near_empty(page: PageEvidence) -> ClassFindings:
    """Collect findings for a page without text and pictures."""
    case = ClassFindings()
    seen = page.seen
    if page.traits is None or not page.is_rendered or seen.is_frameset:
        return case
    if _WAITING.fullmatch(page.words) and not seen.media and not seen.frames:
        case.add(0.8, f"It says only “{page.words[:100]}”.")
        return case
    something = seen.pictures or seen.media or seen.frames or seen.fields
    if something or (seen.links and page.words):
        return case
    if not page.words:
        case.add(0.95, "There is no text on it, no picture, and nothing that plays.")
    elif page.volume < _EMPTY_CHARS and not seen.headings:
        case.add(0.75, f"It says only “{page.words}”.")
    return case


ALIKE_BITS = 4  # of 64; error pages differ in the path that they repeat, and that is left out
_EXTENSION = re.compile(r"\.[A-Za-z]{2,5}$")


@dataclass(frozen=True, slots=True)
class AnswerFingerprint:
    """Fingerprint of the answer to a URL."""

    status: int  # of the last answer
    final: str  # the end of redirects, or the URL itself
    moved: bool  # there were redirects
    words: int  # `page_excerpt.simhash` of the page; 0 without words


def invent_sibling(url: str, rng: random.Random) -> str:
    """Generate a sibling URL that no site has; empty for a root page.

    It has the same directory and extension, so that the same part of the server answers. Where a query
    identifies pages, its last value is replaced instead.
    """
    if is_root(url):
        return ""
    parts = urlsplit(url)
    word = "".join(rng.choices(string.ascii_lowercase, k=16))
    if parts.query:
        head, equals, _ = parts.query.rpartition("=")
        query = f"{head}{equals}{word}" if equals else word
        return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    extension = _EXTENSION.search(name)
    slash = "/" if parts.path.endswith("/") else ""
    path = f"{folder}/{word}{extension[0] if extension else ''}{slash}"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def compare_answers(cited: AnswerFingerprint, sibling: AnswerFingerprint) -> str:
    """Return the reason if the cited URL is answered like a missing page; empty otherwise."""
    if not 200 <= sibling.status < 300 or not 200 <= cited.status < 300:
        return ""
    if cited.moved and sibling.moved and _place(cited.final) == _place(sibling.final):
        return "an invented path is led to the same page"
    if cited.moved != sibling.moved or not cited.words or not sibling.words:
        return ""
    if hamming_distance(cited.words, sibling.words) <= ALIKE_BITS:
        return "an invented path gets the same page"
    return ""


def _place(url: str) -> str:
    """Return the URL without its query, which often repeats the requested URL."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path.rstrip('/')}"

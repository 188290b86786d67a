// Does to a held-out page what its kind says; false when the page has nothing for it. `said` are words of
// its language.
async (kind, said) => {
  const all = (query) => [...document.querySelectorAll(query)];
  const is = (name) => all(`[data-is=${name}]`);
  const matter = is("matter")[0];
  const add = (html, place) => document.body.insertAdjacentHTML(place, html);
  const style = (css) => { const made = document.createElement("style"); made.textContent = css; document.head.append(made); };
  const take = (found) => { found.forEach((each) => each.remove()); return found.length > 0; };
  // A file that is asked for and does not come.
  const fail = (images) => {
    images.forEach((each) => { each.dataset.was = each.src; each.loading = "eager"; each.src = "/gone" + new URL(each.src).pathname; });
    return images.length > 0;
  };
  const within = (name) => is(name).flatMap((each) => (each.tagName === "IMG" ? [each] : [...each.querySelectorAll("img")]));
  const texts = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  // The smallest blocks of the matter: what stands one under the other.
  const blocks = () => [...matter.querySelectorAll("p, h2, h3, li, tr, pre, .hit, .line, .post, .field, img, iframe, canvas")]
    .filter((each) => !each.parentElement.closest(".hit, .line, .post, .field"));
  const [what, much] = kind.split(/-(?=\d+$)/);
  const box = `font: 16px sans-serif; color: #222; background: #fff;`;
  const done = {
    identical: () => true,
    banner: () => { add(`<div style="height: ${much}px; padding: 16px; text-align: center; ${box} background: #ffd54a; overflow: hidden">${said.banner}</div>`, "afterbegin"); return true; },
    cookies: () => { add(`<div style="position: fixed; left: 0; right: 0; bottom: 0; height: 72px; padding: 20px; ${box} border-top: 2px solid #444; z-index: 99">${said.cookies}</div>`, "beforeend"); return true; },
    "wall-dim": () => { add(`<div style="position: fixed; inset: 0; background: #000a; z-index: 99"><div style="position: absolute; left: 25%; right: 25%; top: 180px; padding: 40px; ${box} border-radius: 10px">${said.consent}</div></div>`, "beforeend"); return true; },
    wall: () => { add(`<div style="position: fixed; inset: 3%; padding: 8% 12%; ${box} border: 3px solid #888; z-index: 99; font-size: 20px">${said.consent}</div>`, "beforeend"); return true; },
    "hero-gone": () => fail(within("hero")),
    "pictures-gone": () => fail(all("img")),
    "icon-gone": () => fail(within("icon")),
    "logo-gone": () => fail(within("logo")),
    lazy: () => { const late = all("img[loading=lazy]"); late.forEach((each) => { each.dataset.never = each.src; each.src = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 4 3'/>"; each.style.background = "#e9e9e9"; }); return late.length > 0; },
    "sheet-gone": () => { all("link").forEach((each) => { each.dataset.was = each.href; each.href = "/gone/style.css"; }); return true; },
    "font-gone": () => { style(`:root { --font: "DejaVu Sans Mono", monospace !important }  body, h1, h2 { font-family: "DejaVu Serif" !important }`); return true; },
    blank: () => { document.body.innerHTML = ""; style("body { background: #fff !important }"); return true; },
    "nearly-blank": () => { [...document.body.children].slice(1).forEach((each) => each.remove()); return true; },
    error: () => { matter.innerHTML = `<h1>404</h1><p>${said.error}</p>`; return true; },
    "ad-other": () => { within("ad").forEach((each) => { each.src = each.src.replace(/ad\/\d+/, "ad/77"); }); return is("ad").length > 0; },
    "ad-gone": () => take(is("ad")),
    "ad-size": () => { is("ad").forEach((each) => { each.innerHTML = `<img src="/ad/78/970x250" width="970" height="250">`; }); return is("ad").length > 0; },
    slide: () => { const slides = all(".slide"); slides.forEach((each) => { each.hidden = !each.hidden; }); return slides.length > 0; },
    clock: () => { is("clock").forEach((each) => texts(each).forEach((text) => { text.data = text.data.replace(/[0-9]/g, (n) => (Number(n) * 3 + 4) % 10); })); return is("clock").length > 0; },
    shift: () => { style("body { padding: 1px 0 0 1px }"); return true; },
    wider: () => { all(".wrap").forEach((each) => { each.style.maxWidth = `${parseInt(getComputedStyle(each).maxWidth, 10) + 5}px`; }); return all(".wrap").length > 0; },
    repacked: () => { all("img").filter((each) => each.src.includes("/photo/")).forEach((each) => { each.loading = "eager"; each.src += "?q=45"; }); return true; },
    half: () => { const found = blocks(); found.slice(found.length / 2).forEach((each) => each.remove()); return found.length > 3; },
    teaser: () => { const found = blocks().filter((each) => each.offsetTop > 0); found.slice(4).forEach((each) => each.remove()); all("figure + *, ol, .box").forEach((each) => { if (!each.textContent.trim()) each.remove(); }); matter.insertAdjacentHTML("beforeend", `<div style="margin: -60px 0 0; padding: 90px 40px 40px; background: linear-gradient(#fff0, #fff 60px); border-bottom: 4px solid #b00; ${"font: 22px serif"}; text-align: center">${said.subscribe}<p><button>→</button></p></div>`); return true; },
    "comments-gone": () => take(is("comments")),
    "side-gone": () => take(is("side")),
    "infobox-gone": () => take(is("infobox")),
    "frame-gone": () => { is("frame").forEach((each) => { if (each.tagName === "IMG") fail([each]); else each.src = "about:blank"; }); return is("frame").length > 0; },
    "icons-boxed": () => { all("[data-icon]").forEach((each) => { each.textContent = "\u{f0d5}"; }); return all("[data-icon]").length > 0; },
    garbled: () => { texts(document.body).forEach((text) => { text.data = [...new TextEncoder().encode(text.data)].map((n) => (n < 128 ? String.fromCharCode(n) : new TextDecoder("windows-1252").decode(new Uint8Array([n])))).join(""); }); return true; },
    "rows-gone": () => take(all("[data-is=rows] tbody tr")),
    "chart-gone": () => { all("canvas").forEach((each) => { each.width = each.width + 0; }); return all("canvas").length > 0; },
    overlapped: () => { style("p, label, small, li, h1, h2, pre, .field { margin: 0 !important; } p, .field, pre, .note { height: 26px; overflow: visible !important; }"); return true; },
    "colours-gone": () => { style("* { background: #fff !important; color: #000 !important; border-color: #bbb !important; }"); return true; },
    skeleton: () => { texts(matter).forEach((text) => { const bar = document.createElement("span"); bar.style.cssText = "display: inline-block; width: 78%; height: 13px; border-radius: 6px; background: #dfe1e5"; text.replaceWith(bar); }); [...matter.querySelectorAll("img, canvas, iframe")].forEach((each) => { const bar = document.createElement("div"); bar.style.cssText = `display: inline-block; width: ${each.width}px; height: ${each.height}px; background: #dfe1e5`; each.replaceWith(bar); }); return true; },
    spinner: () => { const wait = `<div style="padding: 220px 0; text-align: center"><svg width="72" height="72"><circle cx="36" cy="36" r="28" fill="none" stroke="#999" stroke-width="7" stroke-dasharray="120 60"/></svg></div>`; matter.innerHTML = wait; return true; },
    dark: () => { document.documentElement.classList.add("dark"); style("html.dark body, html.dark main, html.dark section, html.dark .card, html.dark table { background: #15171a !important; color: #d6d6d6 !important } html.dark .mine span { background: #24452a; color: #ddd }"); return true; },
    narrow: () => true,
    "other-page": () => true,
    "other-site": () => true,
    language: () => true,
  };
  const change = done[kind] ?? done[what];
  const made = change();
  // Whatever was put in comes, or fails, before the page is pictured.
  await Promise.all(all("img").filter((each) => each.loading !== "lazy" && !each.complete)
    .map((each) => new Promise((resolve) => { each.onload = each.onerror = resolve; })));
  return made;
}

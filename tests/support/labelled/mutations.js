// Does to a page what its kind says, with `n` for how; false when the page has nothing for it.
async (kind, n, said) => {
  const all = (query) => [...document.querySelectorAll(query)];
  const body = document.body;
  const add = (html, place = "beforeend") => body.insertAdjacentHTML(place, html);
  const main = () => document.querySelector(".main, #bodyContent, [role=main], main, .body, #app");
  const area = (each) => { const box = each.getBoundingClientRect(); return box.width * box.height; };
  const photos = () => all("img").filter((each) => area(each) >= 12000 && !each.closest(".ad"));
  const fail = (images, gone) => images.forEach((each) => {
    each.removeAttribute("srcset");
    each.src = `/gone/${Math.random()}`;
    if (gone) { each.removeAttribute("width"); each.removeAttribute("height"); }
  });
  const texts = (root, change) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (!["STYLE", "SCRIPT"].includes(node.parentNode.nodeName)) node.data = change(node.data, node);
    }
  };
  const words = said.words.split(" ");
  const hash = (text) => [...text].reduce((sum, each) => (sum * 31 + each.codePointAt(0)) % 65521, n);
  const put = (root, html) => { root.innerHTML = html; };
  const modal = (html, dim, style = "") => add(
    `<div style="position:fixed;inset:0;background:rgba(0,0,0,${dim});z-index:9998"></div>` +
    `<div style="position:fixed;left:50%;top:50%;transform:translate(-50%,-50%);width:min(80%,620px);background:#fff;color:#222;` +
    `padding:36px;z-index:9999;font:17px/1.5 sans-serif;border-radius:8px;${style}">${html}</div>`);
  const buttons = `<p><button style="padding:10px 24px">${said.accept}</button> <button style="padding:10px 24px">${said.refuse}</button></p>`;
  const doings = {
    identical: () => true,
    banner: () => add(`<div style="background:${["#ffe9a8", "#0b5fff", "#222"][n % 3]};color:${n % 3 ? "#fff" : "#222"};height:${[40, 64, 80, 120][n % 4]}px;box-sizing:border-box;padding:9px 30px;font:16px sans-serif">${said.line} <b>${said.more}</b></div>`, "afterbegin"),
    strip: () => add(`<div style="position:fixed;left:0;right:0;bottom:0;height:${[70, 96, 118][n % 3]}px;background:${["#222", "#fff"][n % 2]};color:${["#fff", "#222"][n % 2]};border-top:1px solid #888;padding:14px 30px;box-sizing:border-box;font:15px sans-serif;z-index:9999">${said.line} <button>${said.accept}</button></div>`),
    line: () => { const found = all("p, li, tr").filter((each) => area(each) > 4000); if (!found.length) return false; found[Math.floor(found.length * (n % 3 + 1) / 5)].insertAdjacentHTML("beforebegin", `<p>${said.line}</p>`); },
    nudged: () => { const [x, y] = [[0, 1], [3, 0], [2, 5], [0, 8], [1, 1], [0, 3]][n % 6]; Object.assign(document.documentElement.style, { position: "relative", left: `${x}px`, top: `${y}px` }); },
    wider: () => { document.documentElement.style.width = `calc(100% - ${[5, 15][n % 2]}px)`; },
    ads: () => { const found = all(".ad img"); found.forEach((each) => { each.src = each.src.replace(/\/ad\/\d+/, `/ad/${900 + n + Math.floor(area(each))}`); }); return found.length > 0; },
    "ads-gone": () => { const found = all(".ad img"); found.forEach((each) => { each.style.visibility = "hidden"; }); return found.length > 0; },
    carousel: () => { const found = document.querySelector(".carousel"); if (!found) return false; found.querySelector("img").src = `/photo/${700 + n}/1160x300`; found.querySelector("b").textContent = said.line.slice(0, 40); },
    dates: () => { const found = all(".date, .count, time"); found.forEach((each) => { each.textContent = each.textContent.replace(/\d/g, (digit) => (Number(digit) + 1 + n) % 10); }); return found.length > 0; },
    recommended: () => { const found = all(".others a"); found.forEach((each, i) => { each.textContent = words.slice((i * 7 + n) % 40, (i * 7 + n) % 40 + 5).join(" "); }); return found.length > 0; },
    reencoded: () => { const found = photos().filter((each) => each.src.includes("/photo/")); found.forEach((each) => { each.removeAttribute("srcset"); each.src = `${each.src}?q=${[70, 80][n % 2]}`; }); return found.length > 0; },
    frame: () => { const found = document.querySelector(".film"); if (!found) return false; found.src = found.src.replace(/frame\/\d+/, `frame/${n + 7}`); },
    rasterised: () => { body.style.textRendering = "geometricPrecision"; body.style.transform = "translate(0.35px, 0.3px)"; },
    icon: () => { const found = all("img").filter((each) => area(each) && area(each) <= 2500); if (!found.length) return false; fail([found[n % found.length]]); },
    glyphs: () => { all("h2, h3, button").slice(0, 8).forEach((each) => each.insertAdjacentHTML("afterbegin", "\uf1ea ")); },
    longer: () => { const root = main(); if (!root) return false; const rows = [...root.children].slice(-3).map((each) => each.cloneNode(true)); root.append(...rows); return rows.length > 0; },
    hovered: () => { const found = all("a, button, input").filter((each) => area(each)); found.slice(n % 3, n % 3 + 2).forEach((each) => { each.style.textDecoration = "underline"; each.style.outline = "2px solid #49f"; }); return found.length > 0; },
    avatar: () => { const found = all(".avatar"); fail(found.filter((_, i) => i % 2 === n % 2)); return found.length > 1; },
    hero: () => { const found = all(".hero"); found.forEach((each) => { if (each.nodeName === "IMG") fail([each]); else each.style.backgroundImage = "none"; }); return found.length > 0; },
    "hero-gone": () => { const found = all("img.hero"); fail(found, true); return found.length > 0; },
    images: () => { const found = photos(); fail(found); return found.length > 1; },
    "images-gone": () => { const found = photos(); fail(found, true); return found.length > 1; },
    "half-gallery": () => { const found = photos(); fail(found.filter((_, i) => i % 2 === n % 2)); return found.length > 7 && !document.querySelector(".film"); },
    unstyled: () => { const found = all("link[rel~=stylesheet], style"); found.forEach((each) => each.remove()); document.adoptedStyleSheets = []; return found.length > 0 && area(body) > 0 && body.className !== "bare"; },
    layout: () => { const found = all("style.layout"); found.forEach((each) => each.remove()); return found.length > 0 && !!document.querySelector("style.colours").textContent; },
    blank: () => { const ground = getComputedStyle(document.documentElement).backgroundColor; put(body, ""); document.documentElement.style.cssText = `min-height:100vh;background:${n % 2 ? "#fff" : ground}`; if (n % 2) all("style, link").forEach((each) => each.remove()); },
    sentence: () => { all("style, link").forEach((each) => each.remove()); body.className = ""; put(body, ["<center><h1>404 Not Found</h1></center><hr><center>nginx</center>", "<p style='font:16px sans-serif;padding:40px'>Application error: a client-side exception has occurred (see the browser console for more information).</p>", "<h2>Archived Page Not Found</h2><p>Sorry, this page was not found in this archive.</p>", "<pre>upstream connect error or disconnect/reset before headers. reset reason: connection failure</pre>"][n % 4]); },
    shell: () => { const root = main(); if (!root || area(root) < 100000) return false; put(root, ["", "<p style='padding:40px'>Loading…</p>", "<div style='width:48px;height:48px;border:5px solid #bbb;border-top-color:#555;border-radius:50%;margin:60px auto'></div>"][n % 3]); },
    challenge: () => { all("style, link").forEach((each) => each.remove()); body.style.cssText = "font:18px sans-serif;margin:15vh 10vw"; put(body, "<h1>Checking your browser before you go on</h1><p>This takes a few seconds. Please allow scripts and cookies and reload the page.</p><div style='width:300px;height:70px;border:1px solid #999;padding:22px'>☐ I am not a robot</div><p style='color:#888'>Ray 7f3a9c01d2e4</p>"); },
    "not-found": () => { const root = main(); if (!root) return false; put(root, `<div style="padding:60px 40px"><h1>404</h1><h2>${said.lost}</h2><p>${said.lost_line}</p></div>`); },
    consent: () => modal(`<h2>${said.accept}</h2><p>${said.consent} ${said.consent}</p><p>${said.lost_line}</p>${buttons}`, [0.5, 0.7, 0.85][n % 3]),
    "consent-page": () => { all("style, link").forEach((each) => each.remove()); body.style.cssText = "font:18px/1.5 sans-serif;max-width:700px;margin:8vh auto"; put(body, `<h1>${said.accept}</h1><p>${said.consent}</p><p>${said.consent} ${said.lost_line}</p><p>${said.consent}</p>${buttons}`); },
    letter: () => modal(`<h2 style="font-size:34px">10 % ${said.more}</h2><p>${said.consent}</p><input style="width:90%;height:40px">${buttons}`, [0, 0.3][n % 2], `width:min(90%,760px);min-height:440px;border:1px solid #555;background:${["#fde8ef", "#e8f4fd"][n % 2]}`),
    login: () => { const root = main(); if (!root) return false; put(root, `<div style="width:360px;margin:60px auto;padding:30px;border:1px solid #ccc"><h2>${said.login}</h2><p><input style="width:95%;height:32px"></p><p><input type=password style="width:95%;height:32px"></p>${buttons}</div>`); },
    paywall: () => { const root = main(); if (!root || area(root) < 300000) return false; const top = root.getBoundingClientRect().top; root.style.maxHeight = `${Math.max(260, 480 - top)}px`; root.style.overflow = "hidden"; root.style.position = "relative"; root.insertAdjacentHTML("beforeend", `<div style="position:absolute;left:0;right:0;bottom:0;height:170px;background:linear-gradient(transparent,#fff 60%)"></div>`); root.insertAdjacentHTML("afterend", `<div style="background:#f3f3f3;border:1px solid #ccc;padding:30px;margin:20px;font:18px sans-serif;width:500px"><h2>${said.login}</h2><p>${said.lost_line}</p>${buttons}</div>`); },
    cut: () => { const root = main() || body; const end = root.getBoundingClientRect(); // The stored picture may end before the page does.
      const middle = end.top + Math.min(end.height, 1250) * [0.5, 0.4][n % 2]; if (end.height < 500) return false; const gone = [...root.querySelectorAll("*")].filter((each) => each.getBoundingClientRect().top > middle); gone.forEach((each) => each.remove()); return gone.length > 2; },
    mojibake: () => { let changed = 0; texts(body, (text) => { const other = new TextDecoder("windows-1252").decode(new TextEncoder().encode(text)); changed += other !== text; return other; }); return changed > 5; },
    "unseen-text": () => { if ((main() || body).innerText.length < 600) return false; (main() || body).style.setProperty("color", "transparent"); all(".main *, #bodyContent *, [role=main] *, main *").forEach((each) => { if (each.innerText) each.style.setProperty("color", "transparent", "important"); }); },
    canvas: () => { const found = all("canvas"); found.forEach((each) => { each.width = each.width; }); return found.length > 0; },
    language: () => { texts(body, (text) => text.replace(/\p{L}{2,}/gu, (word) => words[hash(word) % words.length])); },
  };
  const done = doings[kind]();
  await Promise.all(all("img").map((each) => each.decode().catch(() => null)));
  return done !== false;
}

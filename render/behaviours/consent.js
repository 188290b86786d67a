// Reject consent banners. With `click` false, only detect them. `rules` are from consent.toml, `words` from
// words.toml.
async (options, tools) => {
  "use strict";
  const { find, has, label, left, pause, press, query, roots, seen, shadowOf, style } = tools;
  const { rules, words } = options;
  const pick = (selectors, limit = 10) => {
    for (const selector of selectors || []) {
      const found = find(selector, limit).find(seen);
      if (found) return found;
    }
    return null;
  };
  const all = rules.flatMap((rule) => rule.present).join(",");
  const likely = ["cookie", "consent", "gdpr", "dsgvo", "rgpd", "privacy", "ccpa", "cmp"]
    .flatMap((word) => [`[id*='${word}' i]`, `[class*='${word}' i]`])
    .concat("dialog[open]", "[role=dialog]", "[role=alertdialog]", "[aria-modal=true]")
    .join(",");
  const buttons = "button, [role=button], a, input[type=button], input[type=submit], span[onclick], div[onclick]";

  const presentRules = () => {
    if (!find(all, 1).length) return [];
    return rules.filter((rule) => rule.present.some((selector) => find(selector, 20).some(shown)));
  };
  // A shadow host may have no size.
  const shown = (node) => seen(node) || Boolean(shadowOf(node)) || [...query("*", node)].slice(0, 50).some(seen);
  const floats = (node) => {
    for (let at = node, up = 0; at instanceof Element && up < 4; at = at.parentElement, up += 1) {
      if (/fixed|sticky|absolute/.test(style(at).position)) return true;
    }
    return Boolean(tools.within(node, "dialog, [role=dialog], [role=alertdialog], [aria-modal=true]"));
  };
  // Return the smallest floating box that mentions cookies and contains a button.
  const genericBanner = () => {
    let best = null;
    for (const node of find(likely, 300)) {
      if (!(node instanceof HTMLElement) || !seen(node) || node === document.body) continue;
      if (node === document.documentElement || query(buttons, node).length === 0) continue;
      // An element that contains the page's main text is not a banner.
      if (query("main, article", node).length) continue;
      const text = label(node, 5001);
      if (text.length > 5000 || !has(text, words.cookies) || !floats(node)) continue;
      if (!best || best.contains(node)) best = node;
    }
    return best;
  };
  const uniqueSelector = (node) => {
    if (node.id && document.querySelectorAll(`#${CSS.escape(node.id)}`).length === 1) return `#${CSS.escape(node.id)}`;
    const names = [...node.classList].slice(0, 5).map((name) => `.${CSS.escape(name)}`).join("");
    const selector = `${node.localName}${names}`;
    return names && document.querySelectorAll(selector).length === 1 ? selector : "";
  };
  // Return the button whose label matches one of the phrases best.
  const buttonLabelled = (from, list) => {
    let best = null;
    for (const node of [...query(buttons, from)].slice(0, 200)) {
      const text = label(node).replace(/[.!»>→✕×]+$/u, "").trim();
      if (!text || text.length > 60 || !seen(node)) continue;
      const href = node.localName === "a" ? (node.getAttribute("href") || "").trim() : "";
      if (href && !/^(#|javascript:)/i.test(href)) continue;
      const matches = list.some((word) => text === word || text.startsWith(`${word} `) || (word.includes(" ") && text.includes(word)));
      if (matches && (!best || text.length < label(best).length)) best = node;
    }
    return best;
  };
  const eventually = async (test) => {
    for (let turn = 0; turn < 20 && left() > 0; turn += 1) {
      if (test()) return true;
      await pause(30);
    }
    return test();
  };

  const present = presentRules();
  // Within a frame only rules apply: whether it floats is known only to its parent.
  const box = present.length ? null : options.framed ? null : genericBanner();
  if (!present.length && !box) return { found: 0, done: 0, again: false, stays: [], notes: [] };
  if (!options.click) {
    const stays = present.flatMap((rule) => rule.hide || []);
    return { found: 1, done: 0, again: false, stays, notes: present.map((rule) => rule.name) };
  }
  const notes = [];
  const stays = [];
  let done = 0;
  const answer = async (rule) => {
    let button = pick(rule.reject);
    let how = "refused";
    if (!button && rule.settings) {
      const settings = pick(rule.settings);
      if (settings) {
        press(settings);
        done += 1;
        await eventually(() => pick([...(rule.reject || []), ...(rule.save || [])]));
        button = pick(rule.reject) || pick(rule.save);
      }
    }
    if (!button) {
      for (const selector of rule.present) {
        for (const host of find(selector, 5)) {
          button ||= buttonLabelled(shadowOf(host) || host, words.reject);
        }
      }
    }
    if (!button && options.accept) {
      button = pick(rule.accept);
      how = "accepted";
    }
    if (button) {
      press(button);
      done += 1;
    } else {
      how = "left alone";
    }
    const isShown = () => rule.present.some((selector) => find(selector, 20).some((node) => seen(node) || [...query("*", shadowOf(node) || node)].slice(0, 200).some(seen)));
    const isGone = button ? await eventually(() => !isShown()) : !isShown();
    if (!isGone) stays.push(...(rule.hide || rule.present));
    notes.push(`${rule.name}: ${how}${isGone ? "" : ", hidden"}`);
  };
  for (const rule of present.slice(0, 3)) await answer(rule);
  if (box) {
    let button = buttonLabelled(box, words.reject);
    let how = "refused";
    if (!button && options.accept) {
      button = buttonLabelled(box, words.accept);
      how = "accepted";
    }
    if (button) {
      press(button);
      done += 1;
    } else {
      how = "left alone";
    }
    const isGone = button ? await eventually(() => !box.isConnected || !seen(box)) : false;
    const selector = isGone ? "" : uniqueSelector(box);
    if (selector) stays.push(selector);
    notes.push(`banner: ${how}${isGone ? "" : selector ? ", hidden" : ", stays"}`);
  }
  return { found: Math.max(1, present.length), done, again: done > 0, stays, notes, roots: roots().length };
}

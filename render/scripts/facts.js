// Returns the page's metadata as bounded strings, which core/page_facts.py parses.
() => {
  "use strict";
  // Getters of the prototypes: a form's input can shadow any property by its name.
  const reader = (type, name) => {
    const get = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (node) => (node ? get.call(node) : undefined);
  };
  const textOf = reader(Node, "textContent");
  const baseOf = reader(Node, "baseURI");
  const nameOf = reader(Element, "localName");
  const attribute = (node, name) => (node ? Element.prototype.getAttribute.call(node, name) : null);
  const closest = (node, selector) => Element.prototype.closest.call(node, selector);
  const every = (selector, limit) =>
    [...Document.prototype.querySelectorAll.call(document, selector)].slice(0, limit);
  const cut = (text, limit) => String(text ?? "").slice(0, limit);
  const words = (node) => cut(textOf(node), 2000);

  const KNOWN =
    /^(og:|article:|book:|dc[.:]|dcterms[.:]|citation_|prism\.|twitter:(title|description|site)$|parsely-|sailthru\.|(author|description|date|pubdate|publish-date|last-modified|lastmod|application-name)$)/i;
  const metas = [];
  const items = [];
  const html = [];
  for (const node of every("meta[content]", 5000)) {
    if (metas.length >= 400) break;
    const name = attribute(node, "property") ?? attribute(node, "name");
    if (name !== null && name.length < 100 && KNOWN.test(name.trim())) {
      metas.push([name, cut(attribute(node, "content"), 4000)]);
    }
    if (/^content-language$/i.test(attribute(node, "http-equiv") ?? "")) {
      html.push(["content-language", cut(attribute(node, "content"), 100)]);
    }
  }
  const root = reader(Document, "documentElement")(document);
  html.push(["lang", cut(attribute(root, "lang") || attribute(root, "xml:lang"), 100)]);
  html.push(["title", cut(reader(Document, "title")(document), 2000)]);
  const canonical = every('link[rel~="canonical" i][href]', 1)[0];
  if (canonical) html.push(["canonical", cut(attribute(canonical, "href"), 8000)]);

  // Microdata of the first work, without nested comments and teasers.
  const WORK = /schema\.org\/(?:\w*Article|\w*Posting|WebPage|Book|Review|Report|Recipe|Dataset|VideoObject|CreativeWork)\b/;
  const work = every("[itemscope][itemtype]", 200).find((node) => WORK.test(cut(attribute(node, "itemtype"), 500)));
  if (work) {
    items.push(["@type", cut(attribute(work, "itemtype"), 500).trim().split("/").pop()]);
    const NAMES = new Set(["headline", "author", "datePublished", "dateModified", "publisher", "description"]);
    const inside = [...Element.prototype.querySelectorAll.call(work, "[itemprop]")].slice(0, 2000);
    for (const node of inside) {
      if (items.length >= 60) break;
      const owner = closest(reader(Node, "parentElement")(node) ?? node, "[itemscope]");
      const names = cut(attribute(node, "itemprop"), 200).split(/\s+/).filter((name) => NAMES.has(name));
      if (owner !== work || names.length === 0) continue;
      const inner = Element.prototype.hasAttribute.call(node, "itemscope")
        ? Element.prototype.querySelector.call(node, '[itemprop~="name"]') ?? node
        : node;
      const value = attribute(inner, "content") ?? attribute(inner, "datetime") ?? textOf(inner);
      for (const name of names) items.push([name, cut(value, 2000)]);
    }
  }

  for (const node of every("time[datetime]", 50)) {
    // Exclude comments and lists of other articles.
    if (closest(node, "aside, nav, footer, ul, ol, [class*=comment i], [id*=comment i]")) continue;
    const named = Element.prototype.hasAttribute.call(node, "pubdate") || /publish|entry-date|pubdate/i.test(cut(attribute(node, "class"), 500));
    if (named) html.push(["time-pubdate", cut(attribute(node, "datetime"), 200)]);
    else if (closest(node, "article, main, header")) html.push(["time", cut(attribute(node, "datetime"), 200)]);
  }
  for (const node of every('a[rel~="author" i]', 20)) html.push(["rel-author", words(node)]);
  for (const node of every(".byline .author, .byline-name, .author-name, .p-author, .entry-author, [class~=byline] a", 20)) {
    if (!closest(node, "aside, nav, footer, [class*=comment i], [id*=comment i]")) html.push(["byline", words(node)]);
  }

  let left = 1000000;
  const scripts = [];
  for (const node of every('script[type="application/ld+json" i]', 30)) {
    const text = textOf(node);
    if (text.length > left || text.length > 500000) continue;
    left -= text.length;
    scripts.push(text);
  }
  return { base: cut(baseOf(document), 8000), metas, items, html, scripts };
}

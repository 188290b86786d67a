// The style sheet and the pictures that the page asked for: [URL, kind, status, failed, bytes] each. What a
// change let fail stands under its own address.
() => {
  const sizes = new Map(performance.getEntriesByType("resource").map((each) => [each.name, each.encodedBodySize]));
  const found = [];
  for (const each of document.querySelectorAll("img, link[rel=stylesheet]")) {
    if (each.dataset.never) continue;
    const kind = each.tagName === "IMG" ? "Image" : "Stylesheet";
    const address = each.dataset.was ?? (each.tagName === "IMG" ? each.src : each.href);
    if (!address.startsWith("http")) continue;
    const status = each.dataset.was ? 404 : 200;
    found.push([address.replace(/^http:\/\/[^/]*/, "http://held.example").replace(/\?.*/, ""), kind, status, "", sizes.get(address) ?? 9]);
  }
  return found;
}

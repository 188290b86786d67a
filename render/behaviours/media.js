// Request all sources of audio and video, posters and text tracks that were not requested yet, in elements
// outside the page, which stays unchanged. The proxy fetches and records the complete files.
async (options, tools) => {
  "use strict";
  const { address, attribute, find, left, loaded, loadPictures, nameOf, pause, query, reader } = tools;
  const urls = [];
  const posters = [];
  let found = 0;
  const srcOf = reader(HTMLMediaElement, "currentSrc");
  const stateOf = reader(HTMLMediaElement, "readyState");
  for (const node of find("video, audio", 100)) {
    found += 1;
    const poster = address(attribute(node, "poster"));
    if (poster && !loaded(poster)) posters.push({ url: poster, like: null });
    // The current source was requested already.
    const current = stateOf(node) > 0 ? address(srcOf(node)) : null;
    for (const from of [node, ...query("source", node)]) {
      const url = address(attribute(from, "src"));
      if (url && url !== current && urls.length < 20 && !loaded(url)) urls.push([nameOf(node), url]);
    }
    for (const track of query("track", node)) {
      const text = reader(HTMLTrackElement, "track")(track);
      if (reader(TextTrack, "mode")(text) !== "disabled") continue;
      Object.getOwnPropertyDescriptor(TextTrack.prototype, "mode").set.call(text, "hidden");
    }
  }
  let done = posters.length ? await loadPictures(posters) : 0;
  await Promise.all(
    urls.map(async ([name, url]) => {
      const player = document.createElement(name);
      player.muted = true;
      player.preload = "metadata";
      const metadata = new Promise((go) => {
        player.onloadedmetadata = () => go(true);
        player.onerror = () => go(true);
      });
      player.src = url;
      done += 1;
      await Promise.race([metadata, pause(Math.min(left(), 4000))]);
      // An open connection would keep the page from settling.
      player.removeAttribute("src");
      player.load();
    }),
  );
  return { found, done, again: false };
}

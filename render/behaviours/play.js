// Play audio and video without sound for a second, since streaming players load nothing before; then pause
// and rewind them. Play buttons of players that show an image at first are clicked.
async (options, tools) => {
  "use strict";
  const { barred, drawn, find, has, label, left, pause, press, reader, seen } = tools;
  const playButtons =
    "button[class*='play' i], [role=button][class*='play' i], [aria-label*='play' i], [title*='play' i]," +
    ".vjs-big-play-button, .jw-icon-display, .plyr__control--overlaid, .mejs__overlay-button," +
    ".ytp-large-play-button, [data-plyr=play], .fp-play, .wistia_click_to_play, lite-youtube, lite-vimeo";
  let found = 0;
  let done = 0;
  const pressed = [];
  for (const node of find(playButtons, 200)) {
    if (pressed.length >= 5 || left() <= 0) break;
    const name = ` ${label(node)} `;
    if (!seen(node) || has(name, ["playlist", "display", "store"]) || barred(node)) continue;
    if (pressed.some((other) => other.contains(node) || node.contains(other))) continue;
    found += 1;
    done += 1;
    pressed.push(node);
    press(node);
  }
  if (pressed.length) await drawn();
  const pausedOf = reader(HTMLMediaElement, "paused");
  const playing = [];
  for (const node of find("video, audio", 20)) {
    found += 1;
    const was = reader(HTMLMediaElement, "currentTime")(node);
    Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "muted").set.call(node, true);
    const began = pausedOf(node) ? HTMLMediaElement.prototype.play.call(node).catch(() => null) : null;
    playing.push([node, was, began]);
  }
  if (playing.length) {
    await Promise.race([Promise.all(playing.map(([, , began]) => began)), pause(5000)]);
    // Wait until one second of each was played; elements that do not advance have nothing to play.
    const played = ([node, was]) => pausedOf(node) || reader(HTMLMediaElement, "currentTime")(node) >= was + 1;
    for (let turn = 0; turn < 50 && !playing.every(played) && left() > 0; turn += 1) await pause(100);
  }
  for (const [node, was] of playing) {
    if (reader(HTMLMediaElement, "readyState")(node) > 0) done += 1;
    HTMLMediaElement.prototype.pause.call(node);
    if (was === 0 && reader(HTMLMediaElement, "currentTime")(node) > 0) {
      Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "currentTime").set.call(node, 0);
    }
  }
  return { found, done, again: found > 0 };
}

// A file of the page's site, fetched as a script of the page would: [status, URL, body in base64, whether
// it was cut at `limit` bytes or broke off], or null without an answer.
async (url, limit) => {
  "use strict";
  const parts = [];
  let answer;
  let left = limit;
  let cut = false;
  try {
    answer = await fetch(url, { cache: "no-store" });
    const reader = answer.body?.getReader();
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value.subarray(0, left));
      cut = value.length > left;
      left -= Math.min(left, value.length);
      if (cut) {
        reader.cancel();
        break;
      }
    }
  } catch {
    if (answer === undefined) return null;
    cut = true;
  }
  const body = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => done("");
    reader.readAsDataURL(new Blob(parts));
  });
  return [answer.status, answer.url, body, cut];
}

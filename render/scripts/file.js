// Fetches a file as a script of the page. Returns [status, URL, body in base64, whether it was truncated at
// `limit` bytes or by an error], or null without a response.
async (url, limit) => {
  "use strict";
  const parts = [];
  let response;
  let left = limit;
  let cut = false;
  try {
    response = await fetch(url, { cache: "no-store" });
    const reader = response.body?.getReader();
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
    if (response === undefined) return null;
    cut = true;
  }
  const body = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => done("");
    reader.readAsDataURL(new Blob(parts));
  });
  return [response.status, response.url, body, cut];
}

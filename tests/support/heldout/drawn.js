// Draws the charts of a page, each from its seed, and resolves to the parts that the page asked for.
async () => {
  for (const canvas of document.querySelectorAll("canvas")) {
    let seed = Number(canvas.dataset.seed);
    const next = () => { seed = (seed * 16807 + 11) % 2147483647; return seed / 2147483647; };
    const pen = canvas.getContext("2d");
    next();
    if (canvas.dataset.sort === "bars") {
      for (let n = 0; n < 12; n += 1) { const high = 30 + next() * (canvas.height - 50); pen.fillStyle = ["#4653c8", "#e07b39", "#3a9d6e"][n % 3]; pen.fillRect(16 + n * canvas.width / 12.5, canvas.height - high, canvas.width / 18, high); }
    } else {
      for (const colour of ["#c83c46", "#2878b4"]) { pen.strokeStyle = colour; pen.lineWidth = 3; pen.beginPath(); for (let n = 0; n <= 40; n += 1) pen.lineTo(n * canvas.width / 40, canvas.height * (0.2 + 0.6 * next())); pen.stroke(); }
    }
    pen.strokeStyle = "#999"; pen.lineWidth = 1;
    for (let n = 1; n < 5; n += 1) { pen.beginPath(); pen.moveTo(0, n * canvas.height / 5); pen.lineTo(canvas.width, n * canvas.height / 5); pen.stroke(); }
  }
}

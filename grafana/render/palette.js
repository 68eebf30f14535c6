// A screenshot in at most 96 colours: boards have few, so that this costs little and saves more than half of the file.
// Evaluated in the browser, which can read its own pictures: gets a PNG in base64, gives size, colours and a number for each pixel.
async (encoded) => {
  const MOST = 96;
  const KEPT = 72; // of which so many stay exactly as they are
  const SOLID = 4;
  const blob = await (await fetch(`data:image/png;base64,${encoded}`)).blob();
  const bitmap = await createImageBitmap(blob);
  const {width, height} = bitmap;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  const solid = new Map(); // pixels in a row of equal ones: areas and marks of legends, not the edges of letters and lines
  for (let start = 0, end = 0; start < pixels.length; start = end) {
    const pixel = pixels[start];
    while (end < pixels.length && pixels[end] === pixel) {
      end++;
    }
    counts.set(pixel, (counts.get(pixel) ?? 0) + end - start);
    if (end - start >= SOLID) {
      solid.set(pixel, (solid.get(pixel) ?? 0) + end - start);
    }
  }
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const most = (map) => [...map].sort((one, other) => other[1] - one[1]);
  const kept = new Set(most(counts.size <= MOST ? counts : solid).slice(0, counts.size <= MOST ? MOST : KEPT).map(([pixel]) => pixel));
  const palette = [...kept].map(parts);
  // The rest shares what is left: means of the fullest cells of a coarse cube.
  const cells = new Map();
  for (const [pixel, count] of counts) {
    if (!kept.has(pixel)) {
      const [red, green, blue] = parts(pixel);
      const key = ((red >> 4) << 8) | ((green >> 4) << 4) | (blue >> 4);
      const cell = cells.get(key) ?? [0, 0, 0, 0];
      cells.set(key, [cell[0] + count, cell[1] + count * red, cell[2] + count * green, cell[3] + count * blue]);
    }
  }
  const fullest = [...cells.values()].sort((one, other) => other[0] - one[0]).slice(0, MOST - palette.length);
  palette.push(...fullest.map(([count, ...sums]) => sums.map((sum) => Math.round(sum / count))));
  const nearest = new Map();
  for (const pixel of counts.keys()) {
    const [red, green, blue] = parts(pixel);
    let best = 0;
    let least = Infinity;
    for (let place = 0; place < palette.length && least > 0; place++) {
      const [r, g, b] = palette[place];
      const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
      if (distance < least) {
        [best, least] = [place, distance];
      }
    }
    nearest.set(pixel, best);
  }
  let text = '';
  for (let start = 0; start < pixels.length; start += 8192) {
    text += String.fromCharCode(...pixels.subarray(start, start + 8192).map((pixel) => nearest.get(pixel)));
  }
  return {width, height, palette: palette.flat(), indexes: btoa(text)};
}

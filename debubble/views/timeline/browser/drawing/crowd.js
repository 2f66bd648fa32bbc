// Events too short to be told apart: how much of each pixel they fill, and how many touch it.

const SHADES = 128;

export class Crowd {
  constructor(width) {
    this.shares = new Float32Array(Math.ceil(width));
    this.counts = new Uint32Array(Math.ceil(width));
  }

  add(left, right) {
    const last = Math.min(Math.floor(right), this.shares.length - 1);
    for (let pixel = Math.max(Math.floor(left), 0); pixel <= last; pixel++) {
      const share = Math.min(right, pixel + 1) - Math.max(left, pixel);
      if (share > 0) this.shares[pixel] += share;
      if (share > 0 || left === right) this.counts[pixel] += 1;
    }
  }

  /** Shades each pixel by the share that is filled; a line below says that there is anything.
   * What is not the most of its lane is low, so that the others are seen, and its line is higher.
   * Gives the number of marks, at most two a pixel. */
  draw(pen, top, height, most) {
    const { shares, counts } = this;
    const alpha = pen.globalAlpha;
    const from = most ? 0 : height * 0.55, mark = most ? 2 : 6;
    let marks = 0;
    for (let first = 0; first < shares.length; ) {
      const level = Math.round(Math.min(shares[first], 1) * SHADES), there = counts[first] > 0;
      let end = first + 1;
      while (
        end < shares.length &&
        counts[end] > 0 === there &&
        Math.round(Math.min(shares[end], 1) * SHADES) === level
      ) {
        end += 1;
      }
      if (level) {
        pen.globalAlpha = (alpha * level) / SHADES;
        pen.fillRect(first, top + from, end - first, height - from - mark);
        marks += 1;
      }
      if (there) {
        pen.globalAlpha = alpha;
        pen.fillRect(first, top + height - mark, Math.max(end - first, 2), mark);
        marks += 1;
      }
      first = end;
    }
    pen.globalAlpha = alpha;
    return marks;
  }
}

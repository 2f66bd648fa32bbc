// The part of the time axis that is seen.

const SHORTEST = 0.05; // microseconds
const MARGIN = 0.008; // of the axis, left and right of it
const LOAD_SEEN = 0.05; // of the first view: the end of a load that is left out

export class Seen {
  /** view.selectedCentre() is where a zoom without a place aims at. */
  constructor(view) {
    this.view = view;
    this.part = null; // [start, end] in microseconds, or null: everything
  }

  /** Takes the length of the axis and of the load that the first view leaves out, or 0. */
  read(length, load) {
    Object.assign(this, { length, load });
    if (this.part) this.show(...this.part);
    else if (load && !this.showsAll) this.leaveLoadOut();
  }

  get isAll() {
    return this.part === null;
  }

  get everything() {
    return [-MARGIN * this.length, (1 + MARGIN) * this.length];
  }

  get range() {
    return this.part ?? this.everything;
  }

  show(start, end) {
    const [first, last] = this.everything;
    const span = Math.min(Math.max(end - start, SHORTEST), last - first);
    if (span >= (last - first) * 0.9999) this.part = null;
    else {
      start = Math.min(Math.max(start, first), last - span);
      this.part = [start, start + span];
    }
    this.view.redraw();
  }

  zoom(factor, at = null) {
    const [start, end] = this.range;
    at ??= this.view.selectedCentre() ?? (start + end) / 2;
    if (at < start || at > end) at = (start + end) / 2;
    this.show(at - (at - start) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const [start, end] = this.range;
    this.show(start + (end - start) * share, end + (end - start) * share);
  }

  /** Shows everything; where that is shown already, leaves a long load out. */
  reset() {
    this.showsAll = !this.isAll || !this.load;
    this.part = null;
    if (!this.showsAll) this.leaveLoadOut();
    this.view.redraw();
  }

  leaveLoadOut() {
    this.show(this.load - LOAD_SEEN * (this.length - this.load), this.everything[1]);
  }

  /** Shows [start, end]: large enough to be seen, and not larger than the view. */
  reveal(start, end) {
    const [from, to] = this.range;
    const span = to - from;
    if (end - start > span) this.show(start - (end - start) * 0.2, end + (end - start) * 0.2);
    else if (end - start < span / 150) {
      const wide = Math.max((end - start) * 40, SHORTEST);
      this.show((start + end - wide) / 2, (start + end + wide) / 2);
    } else if (start < from || end > to) {
      this.show((start + end - span) / 2, (start + end + span) / 2);
    }
  }
}

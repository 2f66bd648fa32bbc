// How many launched kernels, copies and graphs wait for the device at each moment.
import { upper } from "./columns.js";

const BLOCK = 64;

export class Queue {
  /** Each launch waits from its end until the first of its work begins on the device. */
  constructor(recording) {
    const { start, duration, launched_by: launchedBy } = recording;
    const begins = new Float64Array(start.length).fill(Infinity);
    for (let i = 0; i < start.length; i++) {
      const launch = launchedBy[i];
      if (launch >= 0 && start[i] < begins[launch]) begins[launch] = start[i];
    }
    const launches = [...begins.keys()].filter((index) => begins[index] < Infinity);
    const leaves = Float64Array.from(launches, (index) => begins[index]).sort();
    const enters = Float64Array.from(launches, (index) => Math.min(start[index] + duration[index], begins[index])).sort();
    this.merge(enters, leaves);
  }

  /** times: sorted; depths: the depth from each of them on; most: the largest depth of each block. */
  merge(enters, leaves) {
    const length = 2 * enters.length;
    this.times = new Float64Array(length);
    this.depths = new Int32Array(length);
    let depth = 0;
    for (let i = 0, entered = 0, left = 0; i < length; i++) {
      const isEntry = entered < enters.length && enters[entered] <= leaves[left];
      this.times[i] = isEntry ? enters[entered++] : leaves[left++];
      this.depths[i] = depth += isEntry ? 1 : -1;
    }
    this.most = new Int32Array(Math.ceil(length / BLOCK));
    this.depths.forEach((depth, i) => {
      const block = (i / BLOCK) | 0;
      if (depth > this.most[block]) this.most[block] = depth;
    });
    this.peak = this.most.reduce((most, depth) => Math.max(most, depth), 0);
  }

  /** The depth at a moment. */
  at(moment) {
    const next = upper(this.times, moment);
    return next ? this.depths[next - 1] : 0;
  }

  /** The largest depth from the change `first` up to the change `end`. */
  largest(first, end) {
    let most = first ? this.depths[first - 1] : 0;
    let i = first;
    while (i < end) {
      const isWhole = i % BLOCK === 0 && i + BLOCK <= end;
      const depth = isWhole ? this.most[i / BLOCK] : this.depths[i];
      if (depth > most) most = depth;
      i += isWhole ? BLOCK : 1;
    }
    return most;
  }
}

// Columns of numbers, as Python packed them, and how to look things up in sorted ones.

const READERS = {
  "<f8": [Float64Array, 8],
  "<f4": [Float32Array, 4],
  "<i4": [Int32Array, 4],
  u1: [Uint8Array, 1],
};

/** Columns of `count` numbers each, one after the other in a DataView. */
export function columns(view, count, layout) {
  const found = {};
  let offset = view.byteOffset;
  for (const [name, type] of layout) {
    const [Type, size] = READERS[type];
    found[name] = new Type(view.buffer.slice(offset, offset + count * size));
    offset += count * size;
  }
  return found;
}

/** First place in a sorted list whose value is >= `wanted`. */
export function lower(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** First place in a sorted list whose value is > `wanted`. */
export function upper(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

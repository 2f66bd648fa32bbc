// The reverse of debubble/views/planes.py: planes of bytes become columns again.

const STEPS = 256, HIGH = 2 ** 32;
const TIMES = ["start", "duration"], GROWING = ["start", "launched_by"];
const SIZES = { "<f8": 8, "<f4": 4, "<i4": 4, u1: 1 };

/** The columns of `count` values each in a DataView, as a timeline's widget gets them. */
export function fromPlanes(planes, count, layout) {
  const bytes = new Uint8Array(planes.buffer, planes.byteOffset, planes.byteLength);
  const size = layout.reduce((sum, [, type]) => sum + SIZES[type] * count, 0);
  const view = new DataView(new ArrayBuffer(size));
  let from = 0, to = 0;
  for (const [name, type] of layout) {
    const isTime = TIMES.includes(name);
    const stored = isTime ? 8 : SIZES[type];
    const column = gather(bytes.subarray(from, from + stored * count), count, stored);
    if (isTime) writeTimes(view, to, column, type, GROWING.includes(name));
    else {
      if (GROWING.includes(name)) addUp(column);
      new Uint8Array(view.buffer).set(column, to);
    }
    from += stored * count;
    to += SIZES[type] * count;
  }
  return view;
}

/** Puts the bytes of each value side by side. */
function gather(planes, count, size) {
  const column = new Uint8Array(count * size);
  for (let plane = 0; plane < size; plane++) {
    for (let i = 0; i < count; i++) column[i * size + plane] = planes[plane * count + i];
  }
  return column;
}

function writeTimes(view, at, column, type, grows) {
  const steps = new DataView(column.buffer);
  let sum = 0;
  for (let i = 0; i < column.length / 8; i++) {
    const value = steps.getInt32(8 * i + 4, true) * HIGH + steps.getUint32(8 * i, true);
    sum = grows ? sum + value : value;
    if (type === "<f8") view.setFloat64(at + 8 * i, sum / STEPS, true);
    else view.setFloat32(at + 4 * i, sum / STEPS, true);
  }
}

function addUp(column) {
  const numbers = new DataView(column.buffer);
  for (let i = 4; i < column.length; i += 4) {
    numbers.setInt32(i, numbers.getInt32(i - 4, true) + numbers.getInt32(i, true), true);
  }
}

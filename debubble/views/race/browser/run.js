// Runs a parsed program on a machine: each word is a call, as PyTorch makes it.
import { Machine } from "./clock.js";

const NUMBER_BYTES = 8;

/** Returns the events of a program, in the order of the calls. */
export function run(body, cost) {
  const machine = new Machine(cost);
  runBody(body, machine, 0);
  return machine.events;
}

function runBody(body, machine, stream) {
  for (const statement of body) CALLS[statement.word](statement, machine, stream);
}

/** The kernels and copies that a word queues. */
const ACTIONS = {
  kernel: (_, { times }) => [kernel("add.Tensor", times.add)],
  matmul: ({ size }, { times }) => times.mm[size].map((each) => ({ ...kernel("mm", each), isProduct: true })),
  sleep: ({ time }) => [kernel("sleep", time)],
  upload: ({ memory, bytes }) => [copy(`h2d_${memory}`, bytes)],
  download: ({ bytes }) => [copy("d2h", bytes)],
};

const CALLS = {
  ...Object.fromEntries(Object.keys(ACTIONS).map((word) => [word, launch])),
  upload(statement, machine, stream) {
    machine.operator(); // The empty tensor on the device.
    launch(statement, machine, stream);
    if (statement.values.memory === "pageable") machine.streamSynchronize(stream, statement.line);
  },
  item({ line }, machine, stream) {
    machine.operator();
    machine.launch(copy("d2h", NUMBER_BYTES), stream, line);
    machine.streamSynchronize(stream, line);
  },
  python: ({ values, line }, machine) => machine.python(values.time, line),
  synchronize: ({ line }, machine) => machine.synchronize(line),
  event: ({ values }, machine, stream) => machine.record(values.name, stream),
  wait: ({ values }, machine, stream) => machine.waitFor(values.name, stream),
  repeat({ values, body }, machine, stream) {
    for (let time = 0; time < values.count; time += 1) runBody(body, machine, stream);
  },
  stream: ({ values, body }, machine) => runBody(body, machine, values.number),
  graph: ({ body, line }, machine, stream) => machine.replay([...captured(body, machine.cost)], stream, line),
};

function launch({ word, values, line }, machine, stream) {
  machine.operator();
  for (const action of ACTIONS[word](values, machine.cost)) machine.launch(action, stream, line);
}

function* captured(body, cost) {
  for (const { word, values, line, body: inner } of body) {
    if (word !== "repeat") for (const action of ACTIONS[word](values, cost)) yield { ...action, line };
    else for (let time = 0; time < values.count; time += 1) yield* captured(inner, cost);
  }
}

function kernel(name, microseconds) {
  return { kind: "kernel", name, microseconds };
}

function copy(copyKind, bytes) {
  return { kind: "copy", name: copyKind, copyKind, bytes };
}

// What a widget's browser part asks of its model, without a kernel behind it.

export class Model {
  constructor(values) {
    this.values = values;
    this.listeners = new Map();
  }

  get(name) {
    return this.values[name];
  }

  /** Several at once are told of when all of them are there. */
  set(...given) {
    const changes = typeof given[0] === "string" ? { [given[0]]: given[1] } : given[0];
    Object.assign(this.values, changes);
    for (const name of Object.keys(changes)) {
      for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
    }
  }

  save_changes() {}

  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }

  off(event, listener) {
    const left = (this.listeners.get(event) ?? []).filter((other) => other !== listener);
    this.listeners.set(event, left);
  }
}

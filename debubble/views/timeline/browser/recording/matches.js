// The events and bubbles that a search finds by a word in their name, kind, cause or source line.

export class Matches {
  constructor(recording, words) {
    this.recording = recording;
    const wanted = words.trim().toLowerCase().split(/\s+/);
    const holds = (...texts) => {
      const text = texts.join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    };
    // Names, lines and kinds are few: each pair of them is searched once.
    const { facts, kinds, causes } = recording;
    const line = (source) => (source < 0 ? "" : facts.sources[source].join(" "));
    const known = new Map();
    const asked = (key, texts) => {
      if (!known.has(key)) known.set(key, holds(...texts()));
      return known.get(key);
    };
    this.events = recording.start.reduce((found, _, index) => {
      const name = recording.name[index], source = recording.source[index];
      const kind = recording.kind[index];
      const texts = () => [facts.names[name], kinds[kind].words, line(source)];
      if (asked(`${kind} ${name} ${source}`, texts)) found.add(index);
      return found;
    }, new Set());
    this.byLane = recording.laneNames.map(() => []);
    for (const index of this.events) this.byLane[recording.lane[index]].push(index);
    const { bubbles } = recording;
    this.bubbles = bubbles.start.reduce((found, _, index) => {
      const source = bubbles.source[index], cause = bubbles.cause[index];
      const texts = () => ["bubble", causes[cause].words, line(source)];
      if (asked(`bubble ${cause} ${source}`, texts)) found.add(index);
      return found;
    }, new Set());
  }

  has({ what, index }) {
    return this[what].has(index);
  }

  get duration() {
    let sum = 0;
    for (const index of this.events) sum += this.recording.duration[index];
    return sum;
  }
}

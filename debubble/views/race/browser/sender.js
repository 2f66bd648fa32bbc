// Writes both programs to the page's address, so that a reader can send it.
import { addressOf, writeAddress } from "./address.js";
import { putButton } from "./nodes.js";

const AFTER_MS = 300;

export class Sender {
  constructor(parent, race) {
    this.race = race;
    putButton(parent, "Copy the address", null, () => this.copy());
  }

  remove() {
    clearTimeout(this.writing);
  }

  get end() {
    return addressOf(this.race.texts, this.race.pair);
  }

  writeSoon() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => writeAddress(this.end), AFTER_MS);
  }

  async copy() {
    writeAddress(this.end);
    const address = location.href.replace(/#.*$/s, "") + this.end;
    try {
      await navigator.clipboard.writeText(address);
      this.race.say("Copied: the address holds both programs.");
    } catch {
      this.race.say("The address of this page now holds both programs: copy it from the browser.");
    }
  }
}

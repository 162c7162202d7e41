// The commands of Photon in a sentence, as they can be typed.

let datacenters = [];

/** The names that may be arguments of a command. */
export const knowDatacenters = (names) => {
  datacenters = names;
};

/** The commands that a text has, each once. One with a quoted blank is left out: its end is not certain. */
export function commandsIn(text) {
  const words = text.split(/\s+/);
  const found = words.flatMap((word, at) => (/^[("]?photon$/.test(word) ? commandAt(words.slice(at + 1)) : []));
  return [...new Set(found)];
}

const END = /[:;,.)"]+$/;
const isArgument = (word, before) =>
  /^-/.test(word) || /[/=]|\.ya?ml$/.test(word) || /^\d+$/.test(word) || datacenters.includes(word) || /^-/.test(before);

function commandAt(words) {
  const taken = ["photon"];
  for (const word of words) {
    const bare = word.replace(END, "");
    const isVerb = taken.length === 1 || (taken.length === 2 && taken[1] === "registry");
    if (!(isVerb ? /^[a-z][a-z-]*$/.test(bare) : isArgument(bare, taken.at(-1)))) break;
    taken.push(bare);
    if (bare !== word) break;
  }
  const command = taken.join(" ");
  const isWhole = (command.match(/['"]/g) ?? []).length % 2 === 0;
  return taken.length > 2 && isWhole ? [command] : [];
}

// Questions to the server. None is asked while nobody sees the page.

/** The server gave no answer. */
export class Gone extends Error {}

/** The server refuses the question, and says what to do. */
export class Refused extends Error {
  constructor(says, whatToDo) {
    super(says);
    this.whatToDo = whatToDo;
  }
}

/** The answer to a question, as JSON. Gone, Refused. */
export async function ask(path, patienceSeconds) {
  let answer, said;
  try {
    answer = await fetch(path, { signal: AbortSignal.timeout(1_000 * patienceSeconds) });
    said = await answer.json().catch(() => null);
  } catch (error) {
    throw new Gone(error.message);
  }
  if (answer.ok && said !== null) return said;
  if (answer.status === 401) location.replace("login.html");
  throw new Refused(said?.error ?? `The server answered ${answer.status} to ${path}`, said?.what_to_do ?? "");
}

/**
 * Ask again and again. `question` returns a path and the pause after its answer, or null: nothing is to be asked.
 * Returns a function that asks at once; answers to what was asked before are dropped then.
 */
export function keepAsking(question, patienceSeconds, take) {
  let turn = 0;
  let timer;
  async function next() {
    clearTimeout(timer);
    const mine = ++turn;
    const asked = document.hidden ? null : question();
    if (!asked) return;
    let answer;
    let problem = null;
    try {
      answer = await ask(asked.path, patienceSeconds);
    } catch (error) {
      problem = error;
    }
    if (mine !== turn) return;
    take(answer, problem);
    if (asked.pauseSeconds) timer = setTimeout(next, 1_000 * asked.pauseSeconds);
  }
  document.addEventListener("visibilitychange", next);
  return next;
}
